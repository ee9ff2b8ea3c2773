import type { Queries, Transaction } from '../db/open.ts';
import type { DependencyPinRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';
import { dependenciesNow, type Layer, type Stack } from './software.ts';

/** The use of a dependency that a pin belongs to: by a suite, or by another dependency. */
export type Use = { suite_dependency_id: bigint } | { relation_id: bigint };

/**
 * Whether one of these belongs to another account, so that it has to be pinned. If so nobody changes any dependency until
 * the transaction is over: what is pinned must not be replaced, and its bytes removed, before the pin is there to keep
 * them. To be asked before anything is written, so that two who do it wait for each other with empty hands.
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

/** What a dependency is now: what a pin made at this moment would hold. */
export async function stackNow(db: Queries, dependencyId: bigint): Promise<Stack> {
  const [stack] = await dependenciesNow(db, [dependencyId]);
  if (!stack) throw new Error(`dependency ${dependencyId} is gone`);
  return stack;
}

/** From now on this use gets these layers, whatever becomes of the dependency. */
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

/** Whether both mount and run the same: what something is called makes no difference. */
export function isSameStack(one: Stack, other: Stack): boolean {
  return textOf(one) === textOf(other);
}

function textOf({ below, itself }: Stack): string {
  return JSON.stringify([...below, itself].map(essenceOf));
}

function essenceOf({ id, digest, prefix, launchCommand }: Layer): unknown[] {
  return [String(id), digest, prefix, launchCommand];
}
