import { ApiError } from '../errors.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { AccessTokenRow, UserRow } from '../db/schema.ts';
import { scopes, type Incoming, type Scope } from '../http/route.ts';
import type { IdSource } from '../lib/ids.ts';
import { hashSecret, randomSecret } from '../lib/passwords.ts';
import { authorizationOf } from './authorization.ts';

/**
 * Tokens with which an application acts for a person. They have no end of their own: they go when the person revokes
 * them, when the application is deleted, or when the code they were given for turns up a second time.
 */
export interface Grant {
  clientId: bigint;
  userId: bigint;
  scopes: readonly Scope[];
}

const tokenForm = /^hrt_[\w-]{43}$/;

/** The token that a request comes with. What stands in the query counts where there is no header that says otherwise. */
export function sentToken(request: Pick<Incoming, 'query' | 'headers'>): unknown {
  const authorization = authorizationOf(request);
  if (authorization === undefined) return request.query.oauth_token;
  const [, bearer] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
  return bearer;
}

/**
 * Tells requests with different tokens apart, for what is kept in memory. What could not be a token has one name for
 * all, because nothing good is ever kept about it.
 */
export function tokenName({ query }: Pick<Incoming, 'query'>): string {
  const { oauth_token: sent } = query;
  if (sent === undefined) return '-';
  return typeof sent === 'string' && tokenForm.test(sent) ? sent : '?';
}

const findByHash = prepared<
  { hash: string },
  UserRow & { token_id: bigint; scopes: string; last_used_at: bigint | null; application: string }
>((db, value) =>
  db
    .selectFrom('access_tokens as t')
    .innerJoin('users as u', 'u.id', 't.user_id')
    .innerJoin('oauth_clients as c', 'c.id', 't.client_id')
    .selectAll('u')
    .select(['t.id as token_id', 't.scopes', 't.last_used_at', 'c.name as application'])
    .where('t.token_hash', '=', value('hash')),
);

export interface TokenHolder {
  user: UserRow;
  scopes: ReadonlySet<Scope>;
  application: string;
  token: Pick<AccessTokenRow, 'id' | 'last_used_at'>;
}

/** The person behind a token, and what they allowed. */
export async function findTokenHolder(db: Queries, token: unknown): Promise<TokenHolder> {
  if (typeof token !== 'string' || !tokenForm.test(token)) throw new ApiError('unauthorized');
  const [found] = await findByHash(db, { hash: hashSecret(token) });
  if (!found) throw new ApiError('unauthorized');
  return {
    user: found,
    scopes: new Set(splitScopes(found.scopes)),
    application: found.application,
    token: { id: found.token_id, last_used_at: found.last_used_at },
  };
}

/** A person wants to know roughly when an application was last active; a write with each request would be too dear. */
export const useResolution = 60 * 60 * 1000;

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

/** The token itself is in the answer alone. */
export async function insertToken(
  trx: Transaction,
  ids: IdSource,
  { clientId, userId, scopes: allowed }: Grant,
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
  };
  await trx.insertInto('access_tokens').values(row).execute();
  return { id: row.id, token };
}

/** A code that comes again has been in the wrong hands: what it gave is worth nothing any more. Answers what that was. */
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

/** Answers how many there were. */
export async function revokeTokensOf(trx: Transaction, userId: bigint, clientId: bigint): Promise<number> {
  const tokens = trx.deleteFrom('access_tokens').where('user_id', '=', userId).where('client_id', '=', clientId);
  return Number((await tokens.executeTakeFirst()).numDeletedRows);
}

/** Those that this program knows: one that a newer program had is not granted by an older one. */
export function splitScopes(text: string): Scope[] {
  return text.split(' ').filter((name): name is Scope => Object.hasOwn(scopes, name));
}
