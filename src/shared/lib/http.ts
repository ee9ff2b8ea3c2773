/** An `import` would also load the client behind `fetch`: 6 MB and an eighth of a second, for nothing. */
export const http = process.getBuiltinModule('node:http');
