import type { Transaction } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

export const forgesTopic = 'forges';

/** Time limit to create a project's parts at a forge and record them. After that they are removed. */
export const linkHeldMs = 2 * 60 * 1000;

/**
 * Gives one server at a time the right to link the project. Returns when the right ends, or undefined if another server
 * has it.
 */
export async function holdLink(trx: Transaction, projectId: bigint): Promise<bigint | undefined> {
  const now = Date.now();
  const until = BigInt(now + linkHeldMs);
  const { numUpdatedRows } = await trx
    .updateTable('projects')
    .set({ forge_held_until: until })
    .where('id', '=', projectId)
    .where('forge_held_until', '<=', BigInt(now))
    .executeTakeFirst();
  return numUpdatedRows === 1n ? until : undefined;
}

export async function freeLink(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  projectId: bigint,
  until: bigint,
): Promise<void> {
  const free = trx.updateTable('projects').set({ forge_held_until: 0n }).where('id', '=', projectId);
  await free.where('forge_held_until', '=', until).execute();
  await db.announce(trx, forgesTopic);
}

/** Call on signs of missing parts, such as a hook that did not report a push. */
export async function checkSoon({ db, trx }: Pick<WriteContext, 'db' | 'trx'>, projectId: bigint): Promise<void> {
  const soon = BigInt(Date.now());
  await trx
    .updateTable('projects')
    .set({ forge_check_at: soon })
    .where('id', '=', projectId)
    .where('forge_check_at', '>', soon)
    .execute();
  await db.announce(trx, forgesTopic);
}

/** The forge or git refused a project. The next check shows whether the forge still accepts the token. */
export async function suspect({ db, trx }: Pick<WriteContext, 'db' | 'trx'>, projectId: bigint): Promise<void> {
  const soon = BigInt(Date.now());
  const { numUpdatedRows } = await trx
    .updateTable('projects')
    .set({ forge_check_at: soon })
    .where('id', '=', projectId)
    .where('forge_state', '=', 'connected')
    .where('forge_check_at', '>', soon)
    .executeTakeFirst();
  if (numUpdatedRows > 0n) await db.announce(trx, forgesTopic);
}

/** Skipped if the project was disconnected meanwhile or connected elsewhere. */
export async function noteIncomplete(
  trx: Transaction,
  { id, forge_id: forgeId, forge_repository: name }: Pick<ProjectRow, 'id' | 'forge_id' | 'forge_repository'>,
  reason: string,
): Promise<void> {
  const seen = { forge_state: 'incomplete', forge_state_reason: reason };
  const same = trx.updateTable('projects').set(seen).where('id', '=', id).where('forge_repository', '=', name);
  await same.where('forge_id', '=', forgeId).execute();
}
