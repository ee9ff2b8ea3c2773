import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange } from '../db/prepared.ts';
import type { IdSource } from '../lib/ids.ts';
import { randomName } from '../lib/random-name.ts';
import type { ClaimedJob } from './queue.ts';
import { hurryStranded } from './stranded.ts';

/**
 * Delivery jobs. A subject has at most one: a new delivery makes sure that the subject's job is in the queue, and the
 * holder of the job sends all waiting deliveries. So the queue has one row for a subject with ten thousand waiting
 * deliveries, and the search for work never reads them.
 *
 * The row of the job keeps concurrent transactions apart. A transaction that adds a delivery touches the row. A holder
 * that is done locks the row first (`holdDeliveryJob`) and then looks for deliveries. It either sees the new delivery,
 * or has removed the row, and a new row is created.
 *
 * Servers run delivery jobs themselves; runners never get one. The job that is due longest comes first.
 */
const kind = 'deliver';

/** Announced when a delivery job may be due. */
export const deliveryJobsTopic = 'deliveryJobs';

export interface DeliveryJob {
  subjectId: bigint;
  accountId: bigint;
}

/** A claimed delivery job. `tries` is how often it has failed in a row. */
export type ClaimedDeliveryJob = Pick<ClaimedJob, 'id' | 'claim' | 'subject_id' | 'account_id' | 'tries'>;

/** Makes sure that these subjects have delivery jobs in the queue. A job that is put off stays put off. */
export async function ensureDeliveryJobs(
  db: Database,
  trx: Transaction,
  ids: IdSource,
  jobs: DeliveryJob[],
): Promise<void> {
  const now = BigInt(Date.now());
  const isNew = await Promise.all(
    jobs.map(async ({ subjectId, accountId }) => {
      const id = ids.next();
      const [stored] = await ensureJob(trx, { id, subject: subjectId, account: accountId, now });
      return stored?.id === id;
    }),
  );
  if (isNew.includes(true)) await db.announce(trx, deliveryJobsTopic);
}

const free = { claim: null, holder: null, claimed_until: null };

/** Returns the new job or the existing one. */
const ensureJob = prepared<{ id: bigint; subject: bigint; account: bigint; now: bigint }, { id: bigint }>(
  (db, value) => {
    const [none, zero] = [sql.lit(null), sql.lit(0)];
    const job = {
      id: value('id'),
      subject_id: value('subject'),
      account_id: value('account'),
      run_after: value('now'),
    };
    return db
      .insertInto('jobs')
      .values({ ...job, kind: sql.lit(kind), lane: none, tries: zero, cancelled: zero, tags: sql.lit('') })
      .onConflict((conflict) =>
        conflict
          .column('subject_id')
          .where('kind', '=', sql.lit(kind))
          .doUpdateSet({ kind: sql.lit(kind) }),
      )
      .returning('id');
  },
);

/** Makes a delivery job that was put off due now, and resets its failures. */
export async function hurryDeliveryJob(db: Database, trx: Transaction, subjectId: bigint): Promise<void> {
  await hurryJob(trx, { subject: subjectId, now: BigInt(Date.now()) });
  await db.announce(trx, deliveryJobsTopic);
}

const hurryJob = preparedChange<{ subject: bigint; now: bigint }>((db, value) =>
  db
    .updateTable('jobs')
    .set({ run_after: value('now'), tries: sql.lit(0) })
    .where('subject_id', '=', value('subject'))
    .where('kind', '=', sql.lit(kind)),
);

export interface ClaimingDeliveryJobs {
  holder: string;
  seconds: number;
  most: number;
  /** Accounts that have enough jobs under way. */
  except: bigint[];
  /** How many more an account may have. */
  roomOf: (account: bigint) => number;
}

/** Claims delivery jobs that are due, those that have waited longest first. */
export async function claimDeliveryJobs(
  db: Database,
  trx: Transaction,
  { holder, seconds, most, except, roomOf }: ClaimingDeliveryJobs,
): Promise<ClaimedDeliveryJob[]> {
  const now = BigInt(Date.now());
  // Accounts at their limit are rare. The query with their list is not prepared: each length would be another
  // statement.
  const due =
    except.length > 0
      ? await db.skipLocked(dueJobs(trx, now, BigInt(most)).where('account_id', 'not in', except), 'jobs').execute()
      : await findDue(db)(trx, { now, most: BigInt(most) });
  const claimed: ClaimedDeliveryJob[] = [];
  for (const job of due) {
    const { length: alike } = claimed.filter(({ account_id }) => account_id === job.account_id);
    if (alike >= roomOf(job.account_id)) continue;
    const mine = { claim: randomName(), holder };
    await takeJob(db)(trx, { id: job.id, ...mine, ms: BigInt(seconds * 1000) });
    claimed.push({ ...job, ...mine });
  }
  return claimed;
}

function dueJobs(queries: Queries, now: bigint, most: bigint) {
  return queries
    .selectFrom('jobs')
    .select(['id', 'subject_id', 'account_id', 'tries'])
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '<=', now)
    .orderBy('run_after')
    .limit(most);
}

type DueJob = Pick<ClaimedDeliveryJob, 'id' | 'subject_id' | 'account_id' | 'tries'>;

const findDue = forEachKind((db) =>
  prepared<{ now: bigint; most: bigint }, DueJob>((queries, value) =>
    db.skipLocked(dueJobs(queries, value('now'), value('most')), 'jobs'),
  ),
);

const takeJob = forEachKind((db) =>
  preparedChange<{ id: bigint; claim: string; holder: string; ms: bigint }>((queries, value) =>
    queries
      .updateTable('jobs')
      .set({ claim: value('claim'), holder: value('holder'), claimed_until: sql<bigint>`${db.clock} + ${value('ms')}` })
      .where('id', '=', value('id')),
  ),
);

/** When the next unclaimed delivery job is due; undefined when none waits. */
export async function nextDeliveryJobAt(db: Queries): Promise<number | undefined> {
  const [next] = await findNext(db, {});
  return next && Number(next.run_after);
}

const findNext = prepared<object, { run_after: bigint }>((db) =>
  db
    .selectFrom('jobs')
    .select('run_after')
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '>', sql.lit(0n)) // true for all rows; makes SQLite use the index with this order
    .orderBy('run_after')
    .limit(sql.lit(1)),
);

/** After the clock was set back: delivery jobs that wait longer than the longest delay are due now. */
export function hurryDeliveryJobs(db: Database, longestWait: number): Promise<void> {
  return hurryStranded(db, { kinds: [kind], longestWait });
}

/** Extends a claim and locks its delivery job until the transaction ends; false when the claim is lost. */
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

/** Releases a delivery job; it runs again at a later moment. */
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

/** Removes a delivery job that is done. */
export async function finishDeliveryJob(trx: Transaction, { id, claim }: ClaimedDeliveryJob): Promise<void> {
  await trx.deleteFrom('jobs').where('id', '=', id).where('claim', '=', claim).execute();
}

/** Removes a delivery job, claimed or not, because its subject is deleted. */
export async function dropDeliveryJob(trx: Transaction, subjectId: bigint): Promise<void> {
  await trx.deleteFrom('jobs').where('subject_id', '=', subjectId).where('kind', '=', sql.lit(kind)).execute();
}

/** Releases all delivery jobs of a holder: it has just started, so it runs none of them. */
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
