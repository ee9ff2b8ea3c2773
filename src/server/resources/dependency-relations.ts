import type { Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { wakeWaiting } from '../software/dependencies.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { foreignAmong, pinTo, stackNow } from '../software/pins.ts';
import { pinsOf, type Stack } from '../software/software.ts';
import { relatedTo } from '../views/dependency.ts';

/* Dependencies may be compiled against other dependencies. Cycles are refused. */

type Relating = Pick<DependencyRow, 'id' | 'owner_id'>;

/** Other accounts' dependencies are pinned to their present result. Remove and add a relation to renew its pin. */
export async function relate(
  context: WriteContext,
  { id, owner_id: ownerId }: Relating,
  related: bigint[],
): Promise<void> {
  const { trx, ids } = context;
  const kept = await pinsByRelated(trx, id);
  await trx.deleteFrom('dependency_relations').where('dependency_id', '=', id).execute();
  const rows = related.map((relatedId) => ({ id: ids.next(), dependency_id: id, related_id: relatedId }));
  if (rows.length > 0) await trx.insertInto('dependency_relations').values(rows).execute();
  const foreign = await foreignAmong(trx, ownerId, related);
  for (const { id: relationId, related_id: relatedId } of rows) {
    if (!foreign.has(relatedId)) continue;
    await pinTo(trx, { relation_id: relationId }, kept.get(relatedId) ?? (await stackNow(trx, relatedId)));
  }
  await wakeWaiting(context, ownerId);
}

async function pinsByRelated(db: Queries, dependencyId: bigint): Promise<Map<bigint, Stack>> {
  const query = db.selectFrom('dependency_relations').select(['id', 'related_id']);
  const relations = await query.where('dependency_id', '=', dependencyId).execute();
  const ids = relations.map((relation) => relation.id);
  const pins = await pinsOf(db, 'relation_id', ids);
  const found = relations.map(({ id, related_id: relatedId }) => [relatedId, pins.get(id)] as const);
  return new Map(found.flatMap(([id, pin]) => (pin ? [[id, pin] as const] : [])));
}

/** Each must be the account's own, shared or already related, and must not depend on this dependency. */
export async function checkRelated(
  db: Queries,
  ownerId: bigint,
  related: bigint[] | undefined,
  dependencyId: bigint | undefined,
): Promise<FieldErrors> {
  if (!related || related.length === 0) return {};
  const usable = await usableBy(db, ownerId, related);
  const before = dependencyId === undefined ? [] : await relatedTo(db, [dependencyId]);
  for (const { related_id: id } of before) usable.add(id);
  if (related.some((id) => !usable.has(id))) return { related_dependencies: ['not_found'] };
  const circular = dependencyId !== undefined && (await reachable(db, related)).has(dependencyId);
  return circular ? { related_dependencies: ['invalid_format'] } : {};
}

export async function usableBy(db: Queries, ownerId: bigint, ids: bigint[]): Promise<Set<bigint>> {
  const rows = await db
    .selectFrom('dependencies')
    .select('id')
    .where('id', 'in', ids)
    .where((where) => where.or([where('owner_id', '=', ownerId), where('shared', '=', 1)]))
    .execute();
  return new Set(rows.map((row) => row.id));
}

/** These dependencies, and everything they are compiled against, directly or indirectly. */
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
