import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { IdSource } from '../lib/ids.ts';
import { randomName } from '../lib/random-name.ts';
import type { ClaimedJob } from './queue.ts';
import { hurryStranded } from './stranded.ts';

/**
 * Delivery jobs: jobs of which a subject has one at most. News for a subject makes sure that its delivery job is in the queue, and
 * whoever claims the delivery job takes all the news there is. So the queue holds one row for a subject with ten thousand
 * pieces of news waiting, and whoever looks for work never wades through them.
 *
 * Two who meet at a delivery job are kept apart by its row. Who brings news touches the row in the transaction that writes the
 * news; who is done locks the row first (`holdDeliveryJob`) and looks for news then. Either the news is seen, or the row is
 * already gone and a new one is made.
 *
 * Servers run delivery jobs themselves; no runner is ever offered one. The one that is due longest comes first.
 */
const kind = 'deliver';

/** Announced when a delivery job may be due. */
export const deliveryJobsTopic = 'deliveryJobs';

export interface DeliveryJob {
  subjectId: bigint;
  accountId: bigint;
}

/** A delivery job that somebody has. `tries` is how often it has failed in a row. */
export type ClaimedDeliveryJob = Pick<ClaimedJob, 'id' | 'claim' | 'subject_id' | 'account_id' | 'tries'>;

/** Sees to it that these subjects have their delivery jobs in the queue. One that waits for a later moment goes on waiting. */
export async function ensureDeliveryJobs(
  db: Database,
  trx: Transaction,
  ids: IdSource,
  jobs: DeliveryJob[],
): Promise<void> {
  const now = BigInt(Date.now());
  const rows = jobs.map(({ subjectId, accountId }) => ({
    id: ids.next(),
    kind,
    subject_id: subjectId,
    account_id: accountId,
    run_after: now,
    lane: null,
    tries: 0,
    cancelled: 0,
    ...free,
  }));
  const stored = await trx
    .insertInto('jobs')
    .values(rows)
    .onConflict((conflict) => conflict.column('subject_id').where('kind', '=', sql.lit(kind)).doUpdateSet({ kind }))
    .returning('id')
    .execute();
  const isNew = rows.some(({ id }) => stored.some((one) => one.id === id));
  if (isNew) await db.announce(trx, deliveryJobsTopic);
}

const free = { claim: null, holder: null, claimed_until: null };

/** Lets a delivery job that waits for a later moment be run now, as if nothing had ever failed. */
export async function hurryDeliveryJob(db: Database, trx: Transaction, subjectId: bigint): Promise<void> {
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
  /** Accounts that have enough under way. */
  except: bigint[];
}

/** Takes delivery jobs that are due, those that have waited longest first. */
export async function claimDeliveryJobs(
  db: Database,
  trx: Transaction,
  { holder, seconds, most, except }: ClaimingDeliveryJobs,
): Promise<ClaimedDeliveryJob[]> {
  const due = trx
    .selectFrom('jobs')
    .selectAll()
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '<=', BigInt(Date.now()))
    .$if(except.length > 0, (query) => query.where('account_id', 'not in', except))
    .orderBy('run_after')
    .limit(most);
  const claimed: ClaimedDeliveryJob[] = [];
  for (const job of await db.skipLocked(due, 'jobs').execute()) {
    const mine = { claim: randomName(), holder };
    await trx
      .updateTable('jobs')
      .set({ ...mine, claimed_until: until(db, seconds) })
      .where('id', '=', job.id)
      .execute();
    claimed.push({ ...job, ...mine });
  }
  return claimed;
}

/** When the next delivery job that nobody has is due; undefined when none waits. */
export async function nextDeliveryJobAt(db: Queries): Promise<number | undefined> {
  const next = await db
    .selectFrom('jobs')
    .select('run_after')
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '>', 0n) // true of all, and what makes SQLite take the index that is in this order
    .orderBy('run_after')
    .limit(1)
    .executeTakeFirst();
  return next && Number(next.run_after);
}

/** The clock was set back: delivery jobs that wait for longer than anything is put off are due now. */
export function hurryDeliveryJobs(db: Database, longestWait: number): Promise<void> {
  return hurryStranded(db, { kinds: [kind], longestWait });
}

/** Keeps a delivery job for another while, and everybody else's hands off it until the transaction ends; false when it is lost. */
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

/** Gives a delivery job back, to be run again at a later moment. */
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

/** Takes a delivery job out that is done. */
export async function finishDeliveryJob(trx: Transaction, { id, claim }: ClaimedDeliveryJob): Promise<void> {
  await trx.deleteFrom('jobs').where('id', '=', id).where('claim', '=', claim).execute();
}

/** Takes a delivery job out, whoever has it: what it is about goes. */
export async function dropDeliveryJob(trx: Transaction, subjectId: bigint): Promise<void> {
  await trx.deleteFrom('jobs').where('subject_id', '=', subjectId).where('kind', '=', sql.lit(kind)).execute();
}

/** Frees what a holder had: it has just started, so it runs none of them. */
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
