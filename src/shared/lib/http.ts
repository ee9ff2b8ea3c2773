/**
 * Node's HTTP. An `import` of it would make Node read every property of the module, and some of these are classes that
 * load a second HTTP client, the one behind `fetch`: 6 MB and an eighth of a second of processor time, for nothing.
 */
export const http = process.getBuiltinModule('node:http');
