import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange } from '../db/prepared.ts';
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

/** Answers the new one or the one that was there. */
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
      .values({ ...job, kind: sql.lit(kind), lane: none, tries: zero, cancelled: zero })
      .onConflict((conflict) =>
        conflict
          .column('subject_id')
          .where('kind', '=', sql.lit(kind))
          .doUpdateSet({ kind: sql.lit(kind) }),
      )
      .returning('id');
  },
);

/** Lets a delivery job that waits for a later moment be run now, as if nothing had ever failed. */
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
  /** Accounts that have enough under way. */
  except: bigint[];
}

/** Takes delivery jobs that are due, those that have waited longest first. */
export async function claimDeliveryJobs(
  db: Database,
  trx: Transaction,
  { holder, seconds, most, except }: ClaimingDeliveryJobs,
): Promise<ClaimedDeliveryJob[]> {
  const now = BigInt(Date.now());
  // Accounts that have enough are rare, and a query for each number of them would come only once.
  const due =
    except.length > 0
      ? await db.skipLocked(dueJobs(trx, now, BigInt(most)).where('account_id', 'not in', except), 'jobs').execute()
      : await findDue(db)(trx, { now, most: BigInt(most) });
  const claimed: ClaimedDeliveryJob[] = [];
  for (const job of due) {
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

/** When the next delivery job that nobody has is due; undefined when none waits. */
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
    .where('run_after', '>', sql.lit(0n)) // true of all, and what makes SQLite take the index that is in this order
    .orderBy('run_after')
    .limit(sql.lit(1)),
);

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
