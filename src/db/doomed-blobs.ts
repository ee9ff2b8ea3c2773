import type { Transaction } from './open.ts';

/*
 * Blobs whose reason is gone. They are noted in the transaction that takes it away, so that they are removed soon and not
 * only when all blobs are looked through; who removes them asks whether something else refers to them.
 */

export async function doomBlob(trx: Transaction, digest: string): Promise<void> {
  await trx
    .insertInto('doomed_blobs')
    .values({ digest })
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute();
}

/** Those of all logs of a project. */
export async function doomLogsOf(trx: Transaction, projectId: bigint): Promise<void> {
  const logs = trx.selectFrom('logs').select('blob').distinct().where('project_id', '=', projectId);
  await trx
    .insertInto('doomed_blobs')
    .columns(['digest'])
    .expression(logs.where('blob', 'is not', null).$castTo<{ digest: string }>())
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute();
}

/** It is gone, or something else refers to it. */
export async function spareBlob(trx: Transaction, digest: string): Promise<void> {
  await trx.deleteFrom('doomed_blobs').where('digest', '=', digest).execute();
}
