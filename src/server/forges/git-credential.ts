import type { ForgeRow } from '../db/schema.ts';
import { parseGitAddress } from '../../shared/domain/git-address.ts';
import { isDataCenter } from '../../shared/domain/forge-providers.ts';
import { providers } from './index.ts';

/** git over HTTPS with a connected forge's token. The token is for whole origins: scheme, host and port. */

export function httpsOrigin(address: string): string {
  return parseGitAddress(address)?.scheme === 'https' ? new URL(address).origin : '';
}

/**
 * The origin of the git address that a forge reports, or blank if it is not at the forge's own host. A connected
 * project stores it, because git may have another port than the API.
 */
export function gitOriginAt({ url }: Pick<ForgeRow, 'url'>, reported: string): string {
  const origin = httpsOrigin(reported);
  return origin !== '' && new URL(origin).hostname === new URL(url).hostname ? origin : '';
}

/** The token is sent only to the forge's own origin or to `confirmed` (`gitOriginAt`). */
export function isOpened({ url }: Pick<ForgeRow, 'url'>, confirmed: string, address: string): boolean {
  const origin = httpsOrigin(address);
  return origin !== '' && (origin === new URL(url).origin || origin === confirmed);
}

type Known = Pick<ForgeRow, 'provider' | 'url' | 'login'>;

export function gitCredential(forge: Known, token: string) {
  // Bitbucket's API wants the user's email address with a personal token. git at Bitbucket Cloud wants this word.
  const [, address, personal] = /^([^:]*):(.*)$/.exec(token) ?? [];
  if (forge.provider === 'bitbucket' && address !== undefined && personal !== undefined)
    return { username: isDataCenter(forge) ? address : 'x-bitbucket-api-token-auth', password: personal };
  return { username: providers[forge.provider].gitUser(forge), password: token };
}
