import type { Transaction } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/** The right to put things in place at a forge for a project: one at a time has it, of all servers. */

/** Announced when there may be something to do at a forge, or it is done. */
export const forgesTopic = 'forges';

/** So long somebody may put things in place at a forge, and keep them. After that they are taken away. */
export const linkHeldMs = 2 * 60 * 1000;

/** Claims what a project has at its forge until the answered time; undefined if somebody else works at it. */
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

/** Something may be missing, such as a hook that did not tell of a push: the project is checked soon. */
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

/** The forge or git refused a project: the forge is asked now whether it still takes the token. */
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

/** A project cannot be mended for this reason; not if it was disconnected meanwhile, or connected elsewhere. */
export async function noteIncomplete(
  trx: Transaction,
  { id, forge_id: forgeId, forge_repository: name }: Pick<ProjectRow, 'id' | 'forge_id' | 'forge_repository'>,
  reason: string,
): Promise<void> {
  const seen = { forge_state: 'incomplete', forge_state_reason: reason };
  const same = trx.updateTable('projects').set(seen).where('id', '=', id).where('forge_repository', '=', name);
  await same.where('forge_id', '=', forgeId).execute();
}
