import { inBrowser, recordAudit, type Deed } from '../auth/audit.ts';
import { revokeTokensOf, splitScopes } from '../auth/tokens.ts';
import type { Database, Queries } from '../db/open.ts';
import type { Scope } from '../http/route.ts';
import type { IdSource } from '../lib/ids.ts';
import { findClient } from './clients.ts';
import { dropCodesOf } from './codes.ts';

/** An application that a person allowed to act for them; it may hold several tokens. */
export interface AllowedApplication {
  clientId: bigint;
  name: string;
  /** The account that registered it; null for the one that comes with the program. */
  owner: string | null;
  scopes: Scope[];
  since: bigint;
  lastUsedAt: bigint | null;
}

/** Sorted by name. */
export async function allowedBy(db: Queries, userId: bigint): Promise<AllowedApplication[]> {
  const rows = await db
    .selectFrom('access_tokens as t')
    .innerJoin('oauth_clients as c', 'c.id', 't.client_id')
    .leftJoin('users as u', 'u.id', 'c.owner_id')
    .select(['t.client_id', 'c.name', 'u.email as owner', 't.scopes'])
    .select((of) => [of.fn.min('t.created_at').as('since'), of.fn.max('t.last_used_at').as('last_used_at')])
    .where('t.user_id', '=', userId)
    .groupBy(['t.client_id', 'c.name', 'u.email', 't.scopes'])
    .orderBy('c.name')
    .orderBy('t.client_id')
    .execute();
  const found = new Map<bigint, AllowedApplication>();
  for (const { client_id: clientId, name, owner, scopes, since, last_used_at: lastUsedAt } of rows) {
    const known = found.get(clientId) ?? { clientId, name, owner, scopes: [], since, lastUsedAt: null };
    const isLater = lastUsedAt !== null && (known.lastUsedAt === null || lastUsedAt > known.lastUsedAt);
    found.set(clientId, {
      ...known,
      scopes: [...new Set([...known.scopes, ...splitScopes(scopes)])],
      since: since < known.since ? since : known.since,
      lastUsedAt: isLater ? lastUsedAt : known.lastUsedAt,
    });
  }
  return [...found.values()];
}

/** Invalidates every token that the application has of this person, and every code it has not exchanged yet. */
export async function revoke(
  { db, ids, address }: { db: Database; ids: IdSource; address: string },
  person: { id: bigint; email: string },
  clientId: bigint,
): Promise<void> {
  await db.transaction(async (trx) => {
    const codes = await dropCodesOf(trx, person.id, clientId);
    const tokens = await revokeTokensOf(trx, person.id, clientId);
    if (codes + tokens === 0) return;
    const subject = { id: clientId, name: (await findClient(trx, clientId))?.name ?? '' };
    const deed: Deed = { action: 'application.revoked', subject, details: { tokens_revoked: tokens } };
    await recordAudit(trx, ids, inBrowser(person, address), deed);
  });
}
