import packageJson from '../../package.json' with { type: 'json' };

export const version = packageJson.version;

/** Orders of this number may have an image, and files and reports to keep, and may be about a fork's commit. */
export const ordersKnown = 2;

/** Changes with the protocol: a runner and a server that have the same number understand each other. */
export const protocolVersion = 1;

/** Says the number, both ways. */
export const protocolHeader = 'headrace-protocol';
