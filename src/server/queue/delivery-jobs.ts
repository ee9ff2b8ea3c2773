import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';

/**
 * A subject has at most one delivery job. A new delivery ensures that it is in the queue, and its holder sends all
 * waiting deliveries. So ten thousand waiting deliveries are one row, and the search for work never reads them.
 *
 * The row's lock orders concurrent transactions. A transaction that adds a delivery writes the row. A finished holder
 * first extends its claim, which locks the row, then checks for deliveries. It either finds the new delivery, or has
 * removed the row before the new delivery creates another. Only servers run delivery jobs. Their `tries` counts
 * consecutive failures.
 */
export const deliveryKind = 'deliver';
const kind = sql.lit(deliveryKind);

export const deliveryJobsTopic = 'deliveryJobs';

export interface DeliveryJob {
  subjectId: bigint;
  accountId: bigint;
}

export async function ensureDeliveryJobs(
  db: Database,
  trx: Transaction,
  ids: IdSource,
  jobs: DeliveryJob[],
): Promise<void> {
  const fresh = {
    run_after: BigInt(Date.now()),
    kind: deliveryKind,
    lane: null,
    tries: 0,
    cancelled: 0,
    priority: 0,
    tags: '',
  };
  let isNew = false;
  for (const { subjectId, accountId } of jobs) {
    const id = ids.next();
    const stored = await trx
      .insertInto('jobs')
      .values({ id, subject_id: subjectId, account_id: accountId, ...fresh })
      // The index contains only delivery jobs. Its condition identifies it here.
      .onConflict((known) => known.column('subject_id').where('kind', '=', kind).doUpdateSet({ kind: deliveryKind }))
      .returning('id')
      .executeTakeFirstOrThrow();
    isNew ||= stored.id === id;
  }
  if (isNew) await db.announce(trx, deliveryJobsTopic);
}

export async function makeDeliveryJobDue(db: Database, trx: Transaction, subjectId: bigint): Promise<void> {
  const due = trx.updateTable('jobs').set({ run_after: BigInt(Date.now()), tries: 0 });
  await due.where('subject_id', '=', subjectId).where('kind', '=', kind).execute();
  await db.announce(trx, deliveryJobsTopic);
}

/** When the next delivery is tried. Undefined if none waits. */
export function deliveryJobOf(db: Queries, subjectId: bigint): Promise<Pick<JobRow, 'run_after'> | undefined> {
  const jobs = db.selectFrom('jobs').select('run_after');
  return jobs.where('subject_id', '=', subjectId).where('kind', '=', kind).executeTakeFirst();
}

export async function dropDeliveryJob(trx: Transaction, subjectId: bigint): Promise<void> {
  await trx.deleteFrom('jobs').where('subject_id', '=', subjectId).where('kind', '=', kind).execute();
}
