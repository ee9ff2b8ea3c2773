import type { Call } from '../api/call.ts';
import type { ForgeRow } from '../db/schema.ts';
import { ApiError } from '../errors.ts';
import { ForgeError, type Forge } from '../forges/forge.ts';
import { refusalInWords } from '../forges/seen.ts';
import { tokenLocation } from '../lifecycle/forges.ts';

/** A connected forge, with its token. */
export function opened({ vault, openForge }: Pick<Call, 'vault' | 'openForge'>, forge: ForgeRow): Forge {
  return openForge(forge.provider, { url: forge.url, token: vault.open(forge.token, tokenLocation(forge.id)) });
}

type Known = Pick<ForgeRow, 'provider' | 'url'>;

/** The API's answer where a forge did not do what it was asked: in words, with what it said. */
export function forgeRefusal(error: unknown, field: 'token' | 'url' | 'repository', forge: Known) {
  if (!(error instanceof ForgeError)) return error;
  const { kind, message } = error;
  if (kind === 'unavailable') return ApiError.inWords('resource_temporary_unavailable', 'generic', message);
  if (kind === 'refused' || (kind === 'forbidden' && field !== 'repository'))
    return ApiError.inWords('invalid_format', 'token', refusalInWords(forge, error));
  if (field === 'repository' && kind !== 'not_a_forge') return ApiError.inWords('invalid_format', field, message);
  if (field === 'repository') return ApiError.inWords('resource_temporary_unavailable', 'generic', message);
  return ApiError.inWords('invalid_format', 'url', message);
}
