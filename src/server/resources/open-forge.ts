import type { Call } from '../api/call.ts';
import type { ForgeRow } from '../db/schema.ts';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import { ApiError } from '../../shared/errors.ts';
import { ForgeError, type Forge } from '../forges/forge.ts';
import { noteRefusal, refusalInWords } from '../forges/seen.ts';
import { tokenLocation } from '../lifecycle/forges.ts';

export function opened({ vault, openForge }: Pick<Call, 'vault' | 'openForge'>, forge: ForgeRow): Forge {
  return openForge(forge.provider, { url: forge.url, token: vault.open(forge.token, tokenLocation(forge.id)) });
}

type Known = Pick<ForgeRow, 'provider' | 'url'>;

/** An API error that includes the forge's message. */
export function forgeRefusal(error: unknown, field: 'token' | 'url' | 'repository', forge: Known) {
  if (!(error instanceof ForgeError)) return error;
  const { kind, message } = error;
  if (kind === 'unavailable') return ApiError.inWords('resource_temporary_unavailable', 'generic', message);
  if (kind === 'refused' || (kind === 'forbidden' && field !== 'repository'))
    return ApiError.inWords('invalid_format', 'token', refusalInWords(forge, error));
  if (field === 'repository' && kind !== 'not_a_forge') return ApiError.inWords('invalid_format', field, message);
  if (field === 'repository') return ApiError.inWords('resource_temporary_unavailable', 'generic', message);
  if (kind !== 'not_found') return ApiError.inWords('invalid_format', 'url', message);
  const { name } = forgeProviders[forge.provider];
  const detail = `${message.replace(/\.?$/, '.')} No ${name} answers at ${forge.url}. Check the provider and the address.`;
  return ApiError.inWords('invalid_format', 'url', detail);
}

type Asking = Pick<Call, 'database' | 'ids' | 'vault' | 'openForge'>;

/** The refusal for a connected forge. If the forge rejected the token, that state is stored first. */
export async function refusalAt(call: Asking, forge: ForgeRow, error: unknown) {
  if (error instanceof ForgeError && error.kind === 'refused')
    await noteRefusal({ ...call, db: call.database }, opened(call, forge), forge);
  return forgeRefusal(error, 'repository', forge);
}
