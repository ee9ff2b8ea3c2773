import type { Queries, Transaction } from '../db/open.ts';
import type { DependencyPinRow } from '../db/schema.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { dependenciesNow, type Layer, type Stack } from './software.ts';

export type Use = { suite_dependency_id: bigint } | { relation_id: bigint };

/**
 * Whether one of the dependencies belongs to another account and so must be pinned. If so, this locks the whole table.
 * Otherwise a result could be replaced, and its blob removed, before the pin refers to it. Call this before the
 * transaction writes anything, while it holds no locks that other transactions wait for.
 */
export async function holdForeign(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  ownerId: bigint,
  ids: bigint[],
): Promise<boolean> {
  if (!(await foreignAmong(trx, ownerId, ids)).size) return false;
  await db.holdTable(trx, 'dependencies');
  return true;
}

export async function foreignAmong(db: Queries, ownerId: bigint, ids: bigint[]): Promise<Set<bigint>> {
  if (ids.length === 0) return new Set();
  const foreign = db.selectFrom('dependencies').select('id').where('id', 'in', ids).where('owner_id', '<>', ownerId);
  return new Set((await foreign.execute()).map(({ id }) => id));
}

export async function stackNow(db: Queries, dependencyId: bigint): Promise<Stack> {
  const [stack] = await dependenciesNow(db, [dependencyId]);
  if (!stack) throw new Error(`dependency ${dependencyId} is gone`);
  return stack;
}

export async function pinTo(trx: Transaction, use: Use, { below, itself }: Stack): Promise<void> {
  const [column, id] = columnOf(use);
  await trx.deleteFrom('dependency_pins').where(column, '=', id).execute();
  const rows = [...below, itself].map((layer, position): DependencyPinRow => ({
    suite_dependency_id: null,
    relation_id: null,
    ...use,
    position,
    dependency_id: layer.id,
    name: layer.name,
    digest: layer.digest,
    prefix: layer.prefix,
    launch_command: layer.launchCommand,
  }));
  await trx.insertInto('dependency_pins').values(rows).execute();
}

function columnOf(use: Use): [keyof DependencyPinRow & ('suite_dependency_id' | 'relation_id'), bigint] {
  return 'relation_id' in use ? ['relation_id', use.relation_id] : ['suite_dependency_id', use.suite_dependency_id];
}

/** Whether both mount and launch the same, whatever their names. */
export function isSameStack(one: Stack, other: Stack): boolean {
  return textOf(one) === textOf(other);
}

function textOf({ below, itself }: Stack): string {
  return JSON.stringify([...below, itself].map(essenceOf));
}

function essenceOf({ id, digest, prefix, launchCommand }: Layer): unknown[] {
  return [String(id), digest, prefix, launchCommand];
}

/** Before a project leaves an account: its suites keep that account's dependencies as they are now. */
export async function pinOwn(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  project: { id: bigint; owner_id: bigint },
): Promise<void> {
  const uses = await trx
    .selectFrom('suite_dependencies as u')
    .innerJoin('suites as s', 's.id', 'u.suite_id')
    .innerJoin('dependencies as d', 'd.id', 'u.dependency_id')
    .select(['u.id', 'd.id as dependency_id'])
    .where('s.project_id', '=', project.id)
    .where('d.owner_id', '=', project.owner_id)
    .orderBy('u.id')
    .execute();
  if (uses.length === 0) return;
  await db.holdTable(trx, 'dependencies');
  for (const use of uses) await pinTo(trx, { suite_dependency_id: use.id }, await stackNow(trx, use.dependency_id));
}
