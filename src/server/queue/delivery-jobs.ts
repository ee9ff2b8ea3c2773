import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import type { ClaimedJob } from './queue.ts';
import { makeStrandedDue } from './stranded.ts';

/**
 * A subject has at most one delivery job. A new delivery ensures that it is in the queue, and its holder sends all
 * waiting deliveries. So ten thousand waiting deliveries are one row, and the search for work never reads them.
 *
 * The row separates concurrent transactions: one that adds a delivery touches the row. A holder that is done locks it
 * first (`holdDeliveryJob`), then checks for deliveries. It either sees the new delivery or has removed the row, and a
 * new row is created. Only servers run delivery jobs, the longest due first.
 */
const kind = 'deliver';

export const deliveryJobsTopic = 'deliveryJobs';

export interface DeliveryJob {
  subjectId: bigint;
  accountId: bigint;
}

/** `tries` counts consecutive failures. */
export type ClaimedDeliveryJob = Pick<ClaimedJob, 'id' | 'claim' | 'subject_id' | 'account_id' | 'tries'>;

export async function ensureDeliveryJobs(
  db: Database,
  trx: Transaction,
  ids: IdSource,
  jobs: DeliveryJob[],
): Promise<void> {
  const fresh = { run_after: BigInt(Date.now()), kind, lane: null, tries: 0, cancelled: 0, tags: '' };
  let isNew = false;
  for (const { subjectId, accountId } of jobs) {
    const id = ids.next();
    const stored = await trx
      .insertInto('jobs')
      .values({ id, subject_id: subjectId, account_id: accountId, ...fresh })
      // The index contains only delivery jobs, and is named by its condition.
      .onConflict((conflict) => conflict.column('subject_id').where('kind', '=', sql.lit(kind)).doUpdateSet({ kind }))
      .returning('id')
      .executeTakeFirstOrThrow();
    isNew ||= stored.id === id;
  }
  if (isNew) await db.announce(trx, deliveryJobsTopic);
}

const free = { claim: null, holder: null, claimed_until: null };

export async function makeDeliveryJobDue(db: Database, trx: Transaction, subjectId: bigint): Promise<void> {
  await trx
    .updateTable('jobs')
    .set({ run_after: BigInt(Date.now()), tries: 0 })
    .where('subject_id', '=', subjectId)
    .where('kind', '=', sql.lit(kind))
    .execute();
  await db.announce(trx, deliveryJobsTopic);
}

export interface ClaimingDeliveryJobs {
  holder: string;
  seconds: number;
  most: number;
  except: bigint[];
  roomOf: (account: bigint) => number;
}

export async function claimDeliveryJobs(
  db: Database,
  trx: Transaction,
  { holder, seconds, most, except, roomOf }: ClaimingDeliveryJobs,
): Promise<ClaimedDeliveryJob[]> {
  const jobs = trx
    .selectFrom('jobs')
    .select(['id', 'subject_id', 'account_id', 'tries'])
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '<=', BigInt(Date.now()))
    .$if(except.length > 0, (query) => query.where('account_id', 'not in', except))
    .orderBy('run_after')
    .limit(most);
  const claimed: ClaimedDeliveryJob[] = [];
  for (const job of await db.skipLocked(jobs, 'jobs').execute()) {
    const { length: alike } = claimed.filter(({ account_id }) => account_id === job.account_id);
    if (alike >= roomOf(job.account_id)) continue;
    const mine = { claim: randomName(), holder };
    const taken = trx.updateTable('jobs').set({ ...mine, claimed_until: until(db, seconds) });
    await taken.where('id', '=', job.id).where('kind', '=', sql.lit(kind)).execute();
    claimed.push({ ...job, ...mine });
  }
  return claimed;
}

export async function nextDeliveryJobAt(db: Queries): Promise<number | undefined> {
  const next = await db
    .selectFrom('jobs')
    .select('run_after')
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '>', 0n) // true for all rows; makes SQLite use the index with this order
    .orderBy('run_after')
    .limit(1)
    .executeTakeFirst();
  return next && Number(next.run_after);
}

/** After the clock was set back. */
export function makeStrandedDeliveryJobsDue(db: Database, longestWait: number): Promise<void> {
  return makeStrandedDue(db, { kinds: [kind], longestWait });
}

/** Extends a claim and locks its job until the transaction ends; false if the claim is lost. */
export async function holdDeliveryJob(
  db: Database,
  trx: Transaction,
  job: ClaimedDeliveryJob,
  seconds: number,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('jobs')
    .set({ claimed_until: until(db, seconds) })
    .where('id', '=', job.id)
    .where('claim', '=', job.claim)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function putOffDeliveryJob(
  trx: Transaction,
  job: ClaimedDeliveryJob,
  { runAfter, tries }: { runAfter: number; tries: number },
): Promise<void> {
  await trx
    .updateTable('jobs')
    .set({ run_after: BigInt(Math.ceil(runAfter)), tries, ...free })
    .where('id', '=', job.id)
    .where('claim', '=', job.claim)
    .execute();
}

export async function finishDeliveryJob(trx: Transaction, { id, claim }: ClaimedDeliveryJob): Promise<void> {
  await trx.deleteFrom('jobs').where('id', '=', id).where('claim', '=', claim).execute();
}

export async function dropDeliveryJob(trx: Transaction, subjectId: bigint): Promise<void> {
  await trx.deleteFrom('jobs').where('subject_id', '=', subjectId).where('kind', '=', sql.lit(kind)).execute();
}

/** The holder has just started, so it runs none of them. */
export async function freeDeliveryJobsOf(db: Database, holder: string): Promise<void> {
  await db.transaction((trx) =>
    trx
      .updateTable('jobs')
      .set(free)
      .where('kind', '=', sql.lit(kind))
      .where('claim', 'is not', null)
      .where('holder', '=', holder)
      .execute(),
  );
}

function until(db: Database, seconds: number) {
  return sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}`;
}
