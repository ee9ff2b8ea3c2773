import { revokeTokensOf, splitScopes } from '../auth/tokens.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { Scope } from '../http/route.ts';
import { dropCodesOf } from './codes.ts';

export interface AllowedApplication {
  id: bigint;
  name: string;
  /**
   * The account that registered it, the host of the document of one that is not registered, or null for the application
   * that comes with Headrace.
   */
  owner: string | null;
  scopes: Scope[];
  tokens: number;
  since: bigint;
  lastUsedAt: bigint | null;
}

export async function allowedBy(db: Queries, userId: bigint): Promise<AllowedApplication[]> {
  const rows = await db
    .selectFrom('access_tokens as t')
    .innerJoin('oauth_clients as c', 'c.id', 't.client_id')
    .leftJoin('users as u', 'u.id', 'c.owner_id')
    .select(['t.client_id', 'c.name', 'c.document_url', 'u.email as owner', 't.scopes'])
    .select((of) => [of.fn.min('t.created_at').as('since'), of.fn.max('t.last_used_at').as('last_used_at')])
    .select((of) => of.fn.countAll().as('tokens'))
    .where('t.user_id', '=', userId)
    .groupBy(['t.client_id', 'c.name', 'c.document_url', 'u.email', 't.scopes'])
    .orderBy('c.name')
    .orderBy('t.client_id')
    .execute();
  const found = new Map<bigint, AllowedApplication>();
  for (const { client_id: id, name, document_url: document, scopes, tokens, since, ...row } of rows) {
    const { last_used_at: lastUsedAt } = row;
    const owner = document === null ? row.owner : new URL(document).host;
    const known = found.get(id) ?? { id, name, owner, scopes: [], tokens: 0, since, lastUsedAt: null };
    const isLater = lastUsedAt !== null && (known.lastUsedAt === null || lastUsedAt > known.lastUsedAt);
    found.set(id, {
      ...known,
      scopes: [...new Set([...known.scopes, ...splitScopes(scopes)])],
      tokens: known.tokens + Number(tokens),
      since: since < known.since ? since : known.since,
      lastUsedAt: isLater ? lastUsedAt : known.lastUsedAt,
    });
  }
  return [...found.values()];
}

/** Invalidates all its tokens for this user, and its unused codes. */
export async function revoke(trx: Transaction, userId: bigint, clientId: bigint): Promise<void> {
  await dropCodesOf(trx, userId, clientId);
  await revokeTokensOf(trx, userId, clientId);
}

/** Everything that the user allowed, and the user's own applications. */
export async function forgetGrantsOf(trx: Transaction, userId: bigint): Promise<void> {
  await trx.deleteFrom('oauth_codes').where('user_id', '=', userId).execute();
  await trx.deleteFrom('oauth_clients').where('owner_id', '=', userId).execute();
}
