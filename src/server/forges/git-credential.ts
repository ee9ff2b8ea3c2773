import type { ForgeRow } from '../db/schema.ts';
import { parseGitAddress } from '../../shared/domain/git-address.ts';
import { isDataCenter } from '../../shared/domain/forge-providers.ts';
import { providers } from './index.ts';

/** git over HTTPS with the token of a connected forge. The token goes to whole origins: scheme, host and port. */

/** Blank for an address of another kind. */
export function httpsOrigin(address: string): string {
  return parseGitAddress(address)?.scheme === 'https' ? new URL(address).origin : '';
}

/**
 * The origin of the address that a forge reports for git, if it is at the forge's own host, or blank. A project keeps it
 * when it is connected, because git may have another port than the API.
 */
export function gitOriginAt({ url }: Pick<ForgeRow, 'url'>, reported: string): string {
  const origin = httpsOrigin(reported);
  return origin !== '' && new URL(origin).hostname === new URL(url).hostname ? origin : '';
}

/** Whether the token of a forge opens an address: at the forge's own origin, or at `confirmed` (`gitOriginAt`). */
export function isOpened({ url }: Pick<ForgeRow, 'url'>, confirmed: string, address: string): boolean {
  const origin = httpsOrigin(address);
  return origin !== '' && (origin === new URL(url).origin || origin === confirmed);
}

type Known = Pick<ForgeRow, 'provider' | 'url' | 'login'>;

export function gitCredential(forge: Known, token: string) {
  // Bitbucket's API wants the address of a person before a personal token. git at Bitbucket Cloud wants this word there.
  const [, address, personal] = /^([^:]*):(.*)$/.exec(token) ?? [];
  if (forge.provider === 'bitbucket' && address !== undefined && personal !== undefined)
    return { username: isDataCenter(forge) ? address : 'x-bitbucket-api-token-auth', password: personal };
  return { username: providers[forge.provider].gitUser(forge), password: token };
}
