import { ApiError } from '../../shared/errors.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { AccessTokenRow, UserRow } from '../db/schema.ts';
import { scopes, type Scope } from '../http/route.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import { keepNewest } from './newest.ts';

/**
 * Tokens do not expire. They are deleted on revocation, with the application, or if their code is used a second time.
 */
export interface Grant {
  clientId: bigint;
  userId: bigint;
  scopes: readonly Scope[];
  /** The token opens only `/mcp`. */
  forMcp?: boolean;
}

const tokenForm = /^hrt_[\w-]{43}$/;

/** Of applications' tokens, and those that users make. */
export function isTokenForm(text: string): boolean {
  return tokenForm.test(text);
}

export interface TokenHolder {
  user: UserRow;
  scopes: ReadonlySet<Scope>;
  application: string;
  forMcp: boolean;
  token: Pick<AccessTokenRow, 'id' | 'last_used_at'>;
}

export async function findTokenHolder(db: Queries, token: unknown): Promise<TokenHolder> {
  if (typeof token !== 'string' || !isTokenForm(token)) throw new ApiError('unauthorized');
  const found = await db
    .selectFrom('access_tokens as t')
    .innerJoin('users as u', 'u.id', 't.user_id')
    .innerJoin('oauth_clients as c', 'c.id', 't.client_id')
    .selectAll('u')
    .select(['t.id as token_id', 't.scopes', 't.last_used_at', 't.for_mcp', 'c.name as application'])
    .where('t.token_hash', '=', hashSecret(token))
    .executeTakeFirst();
  if (!found) throw new ApiError('unauthorized');
  return {
    user: found,
    scopes: new Set(splitScopes(found.scopes)),
    application: found.application,
    forMcp: found.for_mcp === 1,
    token: { id: found.token_id, last_used_at: found.last_used_at },
  };
}

/** Uses are recorded roughly, because a write with each request would cost too much. */
const useResolution = 60 * 60 * 1000;

export async function noteUse(db: Database, { id, last_used_at: last }: TokenHolder['token']): Promise<void> {
  const now = BigInt(Date.now());
  const stale = now - BigInt(useResolution);
  if (last !== null && last > stale) return;
  await db.transaction((trx) =>
    trx
      .updateTable('access_tokens')
      .set({ last_used_at: now })
      .where('id', '=', id)
      .where((token) => token.or([token('last_used_at', 'is', null), token('last_used_at', '<=', stale)]))
      .execute(),
  );
}

/** The returned value is the only copy of the token. */
export async function insertToken(
  trx: Transaction,
  ids: IdSource,
  { clientId, userId, scopes: allowed, forMcp = false }: Grant,
  codeHash: string | null,
): Promise<{ id: bigint; token: string }> {
  const token = randomSecret('hrt');
  const row: AccessTokenRow = {
    id: ids.next(),
    token_hash: hashSecret(token),
    client_id: clientId,
    user_id: userId,
    scopes: allowed.join(' '),
    code_hash: codeHash,
    created_at: BigInt(Date.now()),
    last_used_at: null,
    for_mcp: forMcp ? 1 : 0,
  };
  await trx.insertInto('access_tokens').values(row).execute();
  await keepNewest(trx, 'access_tokens', userId);
  return { id: row.id, token };
}

/** A code that is used again may be stolen, so its token is revoked. */
export async function revokeTokenOfCode(
  trx: Transaction,
  codeHash: string,
  clientId: bigint,
): Promise<Pick<AccessTokenRow, 'id' | 'user_id'> | undefined> {
  return trx
    .deleteFrom('access_tokens')
    .where('code_hash', '=', codeHash)
    .where('client_id', '=', clientId)
    .returning(['id', 'user_id'])
    .executeTakeFirst();
}

/** Undefined if there is none. */
export async function revokeTokenItself(
  trx: Transaction,
  token: string,
  clientId: bigint,
): Promise<Pick<AccessTokenRow, 'id' | 'user_id'> | 'of another application' | undefined> {
  const known = trx.selectFrom('access_tokens').select(['id', 'user_id', 'client_id']);
  const found = await known.where('token_hash', '=', hashSecret(token)).executeTakeFirst();
  if (found === undefined) return undefined;
  if (found.client_id !== clientId) return 'of another application';
  await trx.deleteFrom('access_tokens').where('id', '=', found.id).execute();
  return found;
}

export async function revokeTokensOf(trx: Transaction, userId: bigint, clientId: bigint): Promise<number> {
  const tokens = trx.deleteFrom('access_tokens').where('user_id', '=', userId).where('client_id', '=', clientId);
  return Number((await tokens.executeTakeFirst()).numDeletedRows);
}

/** Skips unknown scopes, which a newer version may have stored. */
export function splitScopes(text: string): Scope[] {
  return text.split(' ').filter((name): name is Scope => Object.hasOwn(scopes, name));
}
