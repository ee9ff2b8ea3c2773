import type { ForgeRow } from '../db/schema.ts';
import { parseGitAddress, locationOf } from '../domain/git-address.ts';
import { isDataCenter, type ProviderName } from '../domain/forge-providers.ts';

/** git over HTTPS with the token of a connected forge. */

/** Whether git asks this forge, and no other host, for what an address names. */
export function isOverHttpsAt({ url }: Pick<ForgeRow, 'url'>, address: string): boolean {
  return parseGitAddress(address)?.scheme === 'https' && locationOf(address)?.host === locationOf(url)?.host;
}

type Known = Pick<ForgeRow, 'provider' | 'url' | 'login'>;

/** The user name that each of them wants beside a token. */
const usernames: Record<ProviderName, (forge: Known) => string> = {
  github: () => 'x-access-token',
  gitlab: () => 'oauth2',
  gitea: ({ login }) => login,
  bitbucket: (forge) => (isDataCenter(forge) ? forge.login : 'x-token-auth'),
};

export function gitCredential(forge: Known, token: string) {
  // Bitbucket's API wants the address of a person before a personal token. git at Bitbucket Cloud wants this word there.
  const [, address, personal] = /^([^:]*):(.*)$/.exec(token) ?? [];
  if (forge.provider === 'bitbucket' && address !== undefined && personal !== undefined)
    return { username: isDataCenter(forge) ? address : 'x-bitbucket-api-token-auth', password: personal };
  return { username: usernames[forge.provider](forge), password: token };
}
