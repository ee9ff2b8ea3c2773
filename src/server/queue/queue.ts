import { sql, type Expression, type SqlBool } from 'kysely';
import { doomStoredFor, doomStoredUnder, type Stored } from '../db/doomed-blobs.ts';
import { insertRows } from '../db/insert.ts';
import type { Database, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import * as due from './due.ts';
import { moveUp, putInLine } from './lanes.ts';
import { claimsTopic, end, free, type ClaimedJob, type Postponed } from './leases.ts';
import { joinAccountTurns } from './account-turns.ts';
import { deliveryKind } from './delivery-jobs.ts';
import { isDue, literals, type Serving } from './waiting.ts';

/**
 * A job is added in the transaction that causes it and claimed for a while. The claim's holder removes it in the
 * transaction that settles it. Each claim serves the account with the fewest running jobs, so one account's jobs delay
 * another's single job by at most one job (accounts.ts). Within an account, the highest priority is first, then the
 * oldest job.
 */
export interface NewJob {
  kind: string;
  subjectId: bigint;
  accountId: bigint;
  lane?: string;
  /** Runners to avoid, as in JobRow. */
  triedBy?: string | null;
  runAfter?: number;
  /** A caller waits for it: it precedes all other jobs of its account. */
  isAwaited?: boolean;
  priority?: number;
  tags?: string;
  /** The location that may take the job before it is due. */
  location?: string | undefined;
}

export const queueTopic = 'queue';
export const endedClaims = (holder: string | null): string => `ended claims of ${holder}`;

export async function enqueue(db: Database, trx: Transaction, ids: IdSource, ...jobs: NewJob[]): Promise<void> {
  const { laned = [], others = [] } = Object.groupBy(
    jobs.map((job) => rowOf(numberFor(ids.next(), job), job)),
    ({ lane }) => (lane === null ? 'others' : 'laned'),
  );
  await insertRows(trx, 'jobs', others);
  for (const job of laned) await insertRows(trx, 'jobs', [await putInLine(db, trx, job)]); // each sees the one before it
  for (const account of new Set(jobs.map(({ accountId }) => accountId))) await joinAccountTurns(trx, account);
  await db.announce(trx, queueTopic);
}

/** Jobs of one priority begin in the order of their numbers; negative ones first. */
function numberFor(id: bigint, { isAwaited = false }: NewJob): bigint {
  return isAwaited ? -id : id;
}

/** Above all that a user can set. */
const awaitedPriority = 1000;

function rowOf(id: bigint, job: NewJob): JobRow {
  const { kind, subjectId, accountId, lane, runAfter, tags, location, isAwaited, priority = 0, triedBy } = job;
  return {
    id,
    kind,
    subject_id: subjectId,
    account_id: accountId,
    lane: lane ?? null,
    tries: 0,
    run_after: BigInt(runAfter ?? 0),
    claim: null,
    holder: null,
    claimed_until: null,
    cancelled: 0,
    named_blobs: null,
    stored_blob: null,
    stored_bytes: null,
    priority: isAwaited ? awaitedPriority : priority,
    tags: tags ?? '',
    location: location ?? null,
    tried_by: triedBy ?? null,
  };
}

/** A waiting job may be unable to begin yet. Only a claim finds that out. */
export async function isAnyWaiting(
  db: Database,
  kinds: readonly string[],
  runner: Pick<Serving, 'location' | 'isLeaving'>,
): Promise<boolean> {
  const waiting = db.read
    .selectFrom('jobs')
    .select('id')
    .where('claim', 'is', null)
    .where('kind', 'in', literals(kinds))
    .where(isDue('jobs', runner))
    .limit(1);
  return (await waiting.executeTakeFirst()) !== undefined;
}

/**
 * Call after the clock was set back. Jobs of a lane are excluded: they become due when the job ahead of them is over.
 */
export function makeStrandedJobsDue(
  db: Database,
  { kinds, longestWait }: { kinds: readonly string[]; longestWait: number },
): Promise<void> {
  const which = sql<SqlBool>`kind in (${sql.join(literals(kinds))}) and claim is null and lane is null`;
  return due.makeStrandedDue(db, due.jobs, longestWait, which);
}

/** Only if the claim is still valid. */
export async function remove(db: Database, trx: Transaction, job: ClaimedJob): Promise<void> {
  await doomStoredUnder(trx, job);
  await end(trx, job);
  await moveUp(db, trx, [job]);
  await db.announce(trx, endedClaims(job.holder));
}

export type Cancelled = 'dropped' | 'signalled' | 'none';

/** Waiting jobs are removed (`dropped`), holders of claimed ones are signalled. */
export async function cancel(
  db: Database,
  trx: Transaction,
  subjects: readonly bigint[],
): Promise<ReadonlyMap<bigint, Cancelled>> {
  const outcomes = new Map<bigint, Cancelled>(subjects.map((subject) => [subject, 'none']));
  if (subjects.length === 0) return outcomes;
  const jobs = await db.locked(jobsOf(trx).where('subject_id', 'in', subjects), 'jobs').execute();
  const { waiting = [], claimed = [] } = Object.groupBy(jobs, (job) => (job.claim === null ? 'waiting' : 'claimed'));
  for (const { subject_id: subject } of claimed) outcomes.set(subject, 'signalled');
  for (const { subject_id: subject } of waiting) outcomes.set(subject, 'dropped');
  if (waiting.length > 0) await trx.deleteFrom('jobs').where('id', 'in', idsOf(waiting)).execute();
  await moveUp(db, trx, waiting);
  if (claimed.length > 0) {
    await trx.updateTable('jobs').set({ cancelled: 1 }).where('id', 'in', idsOf(claimed)).execute();
    await db.announce(trx, claimsTopic);
  }
  return outcomes;
}

/** Removes all jobs of deleted subjects, claimed or not. Their holders are signalled. */
export async function drop(db: Database, trx: Transaction, subjects: Expression<bigint>): Promise<void> {
  const jobs = await hold(db, trx, (all) => all.where('subject_id', 'in', subjects as never));
  await doomStoredFor(trx, subjects);
  await trx
    .deleteFrom('jobs')
    .where('subject_id', 'in', subjects as never)
    .execute();
  await moveUp(db, trx, jobs);
  await db.announce(trx, claimsTopic);
  await db.announce(trx, queueTopic); // jobs that waited behind them, or for their account's share, can begin
}

/** Gives jobs to another account. Holders of claimed jobs go on. */
export async function handOver(
  db: Database,
  trx: Transaction,
  subjects: Expression<bigint>,
  accountId: bigint,
): Promise<void> {
  await joinAccountTurns(trx, accountId);
  const held = await hold(db, trx, (all) => all.where('subject_id', 'in', subjects as never));
  if (held.length > 0)
    await trx.updateTable('jobs').set({ account_id: accountId }).where('id', 'in', idsOf(held)).execute();
  await db.announce(trx, queueTopic);
}

/** Their rows are locked after those of their notifications. */
export async function handOverDeliveries(
  trx: Transaction,
  notifications: readonly bigint[],
  accountId: bigint,
): Promise<void> {
  if (notifications.length === 0) return;
  const jobs = trx.updateTable('jobs').set({ account_id: accountId }).where('kind', '=', deliveryKind);
  await jobs.where('subject_id', 'in', notifications).execute();
}

type Jobs = ReturnType<typeof jobsOf>;

function jobsOf(trx: Transaction) {
  const columns = ['jobs.id', 'jobs.subject_id', 'jobs.claim', 'jobs.lane', 'jobs.run_after'] as const;
  return trx.selectFrom('jobs').select(columns).orderBy('jobs.id');
}

/** Locks jobs in a fixed order, which prevents deadlocks. */
async function hold(db: Database, trx: Transaction, which: (all: Jobs) => Jobs) {
  return db.locked(which(jobsOf(trx)), 'jobs').execute();
}

function idsOf(jobs: readonly { id: bigint }[]): bigint[] {
  return jobs.map(({ id }) => id);
}

/** On release, the job's blob is removed, unless its outcome added another reference. */
type ReleasedJob = Stored & Pick<ClaimedJob, 'id' | 'claim' | 'holder'>;

export async function release(
  db: Database,
  trx: Transaction,
  job: ReleasedJob,
  changes: Postponed = {},
): Promise<boolean> {
  if (!(await free(trx, job, changes))) return false;
  await doomStoredUnder(trx, job);
  await db.announce(trx, endedClaims(job.holder));
  await db.announce(trx, queueTopic);
  return true;
}

/** Counts no try. The `location` may take the job before `until`. */
export async function putOff(
  db: Database,
  trx: Transaction,
  job: ClaimedJob,
  until: number,
  location: string | null = null,
): Promise<void> {
  await release(db, trx, job, { tries: job.tries - 1, run_after: BigInt(until), location });
}

export async function makeDue(db: Database, trx: Transaction, id: bigint): Promise<void> {
  await trx.updateTable('jobs').set({ run_after: 0n }).where('id', '=', id).where('claim', 'is', null).execute();
  await db.announce(trx, queueTopic);
}

/** Skips locked jobs: a transaction that postpones a job checks again whether it must wait. */
export async function makeAccountDue(
  db: Database,
  trx: Transaction,
  accountId: bigint,
  kinds: readonly string[],
): Promise<void> {
  const all = trx.selectFrom('jobs').select('jobs.id').where('jobs.account_id', '=', accountId);
  const putOff = all.where('jobs.claim', 'is', null).where('jobs.run_after', '>', 0n).where('jobs.kind', 'in', kinds);
  const hurried = trx.updateTable('jobs').set({ run_after: 0n }).where('id', 'in', db.skipLocked(putOff, 'jobs'));
  if ((await hurried.executeTakeFirst()).numUpdatedRows > 0n) await db.announce(trx, queueTopic);
}

/**
 * Jobs that are tried again, and whose pause is over. Otherwise they would stay behind all jobs without a pause, because
 * a claim takes the job that is due for longest.
 */
export async function endPauses(db: Database): Promise<void> {
  const isOver = sql<SqlBool>`tried_by is not null and claim is null and run_after > 0 and run_after <= ${BigInt(Date.now())}`;
  if (!(await db.read.selectFrom('jobs').select('id').where(isOver).limit(1).executeTakeFirst())) return;
  await db.transaction(async (trx) => {
    const over = db.skipLocked(trx.selectFrom('jobs').select('jobs.id').where(isOver), 'jobs');
    await trx.updateTable('jobs').set({ run_after: 0n }).where('id', 'in', over).execute();
    await db.announce(trx, queueTopic);
  });
}

/** Call before changing any of these jobs. */
export async function holdJobsOf(db: Database, trx: Transaction, subjects: readonly bigint[]): Promise<void> {
  if (subjects.length > 0) await hold(db, trx, (all) => all.where('subject_id', 'in', subjects));
}

interface WaitingJobs {
  accountId: bigint;
  which: Expression<SqlBool>;
}

export async function holdWaitingJobs(
  db: Database,
  trx: Transaction,
  { accountId, which }: WaitingJobs,
): Promise<void> {
  await hold(db, trx, (all) =>
    all.where('jobs.account_id', '=', accountId).where('jobs.claim', 'is', null).where(which),
  );
}

export async function retag(
  db: Database,
  trx: Transaction,
  { accountId, which, tags }: WaitingJobs & { tags: string },
): Promise<void> {
  await holdWaitingJobs(db, trx, { accountId, which });
  await trx
    .updateTable('jobs')
    .set({ tags })
    .where('jobs.account_id', '=', accountId)
    .where('jobs.claim', 'is', null)
    .where(which)
    .execute();
  await db.announce(trx, queueTopic);
}
