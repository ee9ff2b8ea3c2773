import packageJson from '../../../package.json' with { type: 'json' };

export const version = packageJson.version;

/**
 * Changes with every change that one side could misunderstand. Different numbers do not work together. Sent as text.
 */
export const protocolNumber = '2';

export const protocolHeader = 'headrace-protocol';
