import packageJson from '../../../package.json' with { type: 'json' };

export const version = packageJson.version;

/**
 * What a runner and a server say to each other, as a number: it changes with each change that one of them could
 * misunderstand. Those that have different numbers do not work together. It is sent as text.
 */
export const protocolNumber = '1';

export const protocolHeader = 'headrace-protocol';
