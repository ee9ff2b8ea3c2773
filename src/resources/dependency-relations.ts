import type { Queries, Transaction } from '../db/open.ts';
import type { FieldErrors } from '../errors.ts';
import type { IdSource } from '../lib/ids.ts';
import { relatedTo } from '../views/dependency.ts';

/* Dependencies are compiled against others. Nothing may come to depend on itself that way. */

export async function relate(trx: Transaction, ids: IdSource, dependencyId: bigint, related: bigint[]): Promise<void> {
  await trx.deleteFrom('dependency_relations').where('dependency_id', '=', dependencyId).execute();
  const rows = related.map((relatedId) => ({ id: ids.next(), dependency_id: dependencyId, related_id: relatedId }));
  if (rows.length > 0) await trx.insertInto('dependency_relations').values(rows).execute();
}

/** Every one must be the account's own or shared, and none may lead back to the dependency itself. */
export async function checkRelated(
  db: Queries,
  ownerId: bigint,
  related: bigint[] | undefined,
  dependencyId: bigint | undefined,
): Promise<FieldErrors> {
  if (!related || related.length === 0) return {};
  const usable = await usableBy(db, ownerId, related);
  if (usable.size < related.length) return { related_dependencies: ['not_found'] };
  const circular = dependencyId !== undefined && (await reachable(db, related)).has(dependencyId);
  return circular ? { related_dependencies: ['invalid_format'] } : {};
}

/** Those of the dependencies that the account may use: its own, and what others share. */
export async function usableBy(db: Queries, ownerId: bigint, ids: bigint[]): Promise<Set<bigint>> {
  const rows = await db
    .selectFrom('dependencies')
    .select('id')
    .where('id', 'in', ids)
    .where((where) => where.or([where('owner_id', '=', ownerId), where('shared', '=', 1)]))
    .execute();
  return new Set(rows.map((row) => row.id));
}

/** These and everything they are compiled against, directly or not. */
async function reachable(db: Queries, from: bigint[]): Promise<Set<bigint>> {
  const seen = new Set(from);
  let edge = from;
  while (edge.length > 0) {
    const next = (await relatedTo(db, edge)).map((one) => one.related_id).filter((id) => !seen.has(id));
    edge = [...new Set(next)];
    for (const id of edge) seen.add(id);
  }
  return seen;
}
