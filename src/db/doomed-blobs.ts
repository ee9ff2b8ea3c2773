import type { Transaction } from './open.ts';

/*
 * Blobs that lost a reference. They are noted in the transaction that deletes the referring row, so that they are
 * removed soon and not only at the next full collection. The removal checks whether another row refers to them.
 */

export async function doomBlob(trx: Transaction, digest: string): Promise<void> {
  await trx
    .insertInto('doomed_blobs')
    .values({ digest })
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute();
}

/** Notes the blobs of all logs of a project. */
export async function doomLogsOf(trx: Transaction, projectId: bigint): Promise<void> {
  const logs = trx.selectFrom('logs').select('blob').distinct().where('project_id', '=', projectId);
  await trx
    .insertInto('doomed_blobs')
    .columns(['digest'])
    .expression(logs.where('blob', 'is not', null).$castTo<{ digest: string }>())
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute();
}

/** The blob was removed, or another row refers to it. */
export async function spareBlob(trx: Transaction, digest: string): Promise<void> {
  await trx.deleteFrom('doomed_blobs').where('digest', '=', digest).execute();
}
