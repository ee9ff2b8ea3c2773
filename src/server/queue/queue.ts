import { sql, type Expression, type SqlBool } from 'kysely';
import { doomStoredFor, doomStoredUnder, type Stored } from '../db/doomed-blobs.ts';
import { insertRows } from '../db/insert.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import type { Serving } from './accounts.ts';
import { findHeld, nothingStored } from './claimed-blobs.ts';
import { findNext, takeJob } from './claims.ts';
import { moveUp, putInLine } from './lanes.ts';
import { detached, nobody } from './lapses.ts';
import { joinAccountTurns } from './account-turns.ts';
import { isDue, literals } from './waiting.ts';

/**
 * The durable queue. A job is added in the transaction that causes it, claimed for a while, kept by extending the
 * claim, and removed by the claim's holder in the transaction that settles it. The queue does not know the meaning of a
 * job.
 *
 * Accounts share the runners: each claim serves the account with the fewest jobs under way, so neither a thousand jobs
 * nor long jobs of one account delay another account's single job by more than one job (accounts.ts). Within an account
 * the oldest job comes first. Jobs of one lane run one after the other.
 */
export interface NewJob {
  kind: string;
  subjectId: bigint;
  accountId: bigint;
  lane?: string;
  /** How often it was tried before, where it continues the work of another job. */
  tries?: number;
  /** The job is not due before this moment. */
  runAfter?: number;
  /** A caller waits for its end: it comes before all other jobs of its account. */
  isAwaited?: boolean;
  /** The tags that a runner needs for it, as one text. */
  tags?: string;
  /** The location that may have it before it is due. */
  location?: string | undefined;
}

/** A claimed job. */
export interface ClaimedJob extends JobRow {
  claim: string;
}

/** A query names so many values at most. */
const mostNamed = 500;

/** Announced when there may be a job to claim. */
export const queueTopic = 'queue';
/** Announced when holders should check their claims. */
export const claimsTopic = 'claims';
/** Announced when a holder has one claim less. */
export const endedClaims = (holder: string | null): string => `ended claims of ${holder}`;

/** Adds jobs to the queue. */
export async function enqueue(db: Database, trx: Transaction, ids: IdSource, ...jobs: NewJob[]): Promise<void> {
  const { laned = [], others = [] } = Object.groupBy(
    jobs.map((job) => rowOf(numberFor(ids.next(), job), job)),
    ({ lane }) => (lane === null ? 'others' : 'laned'),
  );
  await insertRows(trx, 'jobs', others);
  for (const job of laned) await insertRows(trx, 'jobs', [await putInLine(db, trx, job)]); // it sees the one before it
  for (const account of new Set(jobs.map(({ accountId }) => accountId))) await joinAccountTurns(trx, account);
  await db.announce(trx, queueTopic);
}

/** An account's jobs begin in the order of their numbers; a negative number comes before all others. */
function numberFor(id: bigint, { isAwaited = false }: NewJob): bigint {
  return isAwaited ? -id : id;
}

function rowOf(id: bigint, { kind, subjectId, accountId, lane, tries, runAfter, tags, location }: NewJob): JobRow {
  return {
    id,
    kind,
    subject_id: subjectId,
    account_id: accountId,
    lane: lane ?? null,
    tries: tries ?? 0,
    run_after: BigInt(runAfter ?? 0),
    claim: null,
    holder: null,
    claimed_until: null,
    cancelled: 0,
    named_blobs: null,
    stored_blob: null,
    stored_bytes: null,
    tags: tags ?? '',
    location: location ?? null,
  };
}

interface Claiming extends Serving {
  holder: string;
  seconds: number;
  turn: bigint;
  /** The name of the claim; it cannot be guessed. */
  name?: string;
}

/**
 * Claims the next job for `seconds`; undefined when no waiting job may begin. `overtaken` means that another claim was
 * faster: there may be more jobs, for another transaction. One transaction claims at most one job.
 */
export async function claim(
  db: Database,
  trx: Transaction,
  { holder, seconds, turn, name = randomName(), ...serving }: Claiming,
): Promise<ClaimedJob | 'overtaken' | undefined> {
  const next = await db.unsorted(trx, () => findNext(db, trx, serving));
  if (next === undefined || next === 'overtaken') return next;
  const { job, turnOf } = next;
  const taken = { claim: name, holder, tries: job.tries + 1 };
  const passTurn = trx
    .updateTable('queue_turns')
    .set({ turn })
    .where('account_id', '=', turnOf ?? null);
  await Promise.all([
    takeJob(db, trx, { id: job.id, ...taken }, seconds),
    turnOf === undefined ? undefined : passTurn.execute(),
  ]);
  return { ...job, ...taken };
}

/** Claims a job of a kind that servers run themselves, without shares of accounts. The one that is due longest. */
export async function claimAny(
  db: Database,
  trx: Transaction,
  { kind, holder, seconds }: { kind: string; holder: string; seconds: number },
): Promise<ClaimedJob | undefined> {
  const due = trx
    .selectFrom('jobs')
    .selectAll()
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '<=', BigInt(Date.now()))
    .orderBy('run_after')
    .limit(1);
  const job = await db.skipLocked(due, 'jobs').executeTakeFirst();
  if (!job) return undefined;
  const taken = { claim: randomName(), holder, tries: job.tries + 1 };
  await takeJob(db, trx, { id: job.id, ...taken }, seconds);
  return { ...job, ...taken };
}

/** Claims a job again whose claim was rolled back with its transaction. It still counts as a try. */
export async function claimAgain(
  db: Database,
  trx: Transaction,
  { id, claim: before, holder, tries }: ClaimedJob,
  seconds: number,
): Promise<ClaimedJob | undefined> {
  const job = await db.locked(trx.selectFrom('jobs').selectAll().where('id', '=', id), 'jobs').executeTakeFirst();
  if (job?.claim !== null) return undefined;
  const again = { claim: before, holder, tries };
  await takeJob(db, trx, { id, ...again }, seconds);
  return { ...job, ...again };
}

/** Whether a job of these kinds waits. It may be one that cannot begin yet; only a claim finds that out. */
export async function isAnyWaiting(
  db: Database,
  kinds: readonly string[],
  runner: Pick<Serving, 'location' | 'isLeaving'> = {},
): Promise<boolean> {
  const waiting = db.read
    .selectFrom('jobs')
    .select('id')
    .where('claim', 'is', null)
    .where('kind', 'in', literals(kinds))
    .where(isDue('jobs', BigInt(Date.now()), runner))
    .limit(1);
  return (await waiting.executeTakeFirst()) !== undefined;
}

/** Extends all claims of a holder. */
export async function extend(
  db: Database,
  trx: Transaction,
  { holder, claims, seconds }: { holder: string; claims: string[]; seconds: number },
): Promise<void> {
  if (claims.length > 1) await hold(db, trx, (all) => all.where('claim', 'in', claims).where('holder', '=', holder));
  const mine = { claimed_until: sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}` };
  await trx.updateTable('jobs').set(mine).where('claim', 'in', claims).where('holder', '=', holder).execute();
}

/** All jobs that a holder has claimed. */
export async function heldBy(db: Database, holder: string): Promise<JobRow[]> {
  return findHeld(db.read, holder);
}

/** What a holder hears about one of its claims. */
export type HeldClaim = { holder: string; claim: string } & Pick<JobRow, 'cancelled'>;

/** The claims of all these holders. */
export async function heldByAll(db: Database, holders: readonly string[]): Promise<HeldClaim[]> {
  const held: HeldClaim[] = [];
  for (let at = 0; at < holders.length; at += mostNamed) {
    const some = db.read.selectFrom('jobs').select(['claim', 'holder', 'cancelled']).where('claim', 'is not', null);
    const rows = await some.where('holder', 'in', holders.slice(at, at + mostNamed)).execute();
    for (const { claim, holder, cancelled } of rows)
      if (claim !== null && holder !== null) held.push({ claim, holder, cancelled });
  }
  return held;
}

/** The job of a claim; undefined when the claim has expired or the job is done. */
export async function jobOf(db: Queries, claim: string): Promise<ClaimedJob | undefined> {
  const job = await db.selectFrom('jobs').selectAll().where('claim', '=', claim).executeTakeFirst();
  return job && { ...job, claim };
}

/** The same, and locks the job until the transaction is over: a transaction that settles a job begins with this. */
export async function holdJob(db: Database, trx: Transaction, claim: string): Promise<ClaimedJob | undefined> {
  const claimed = trx.selectFrom('jobs').selectAll().where('claim', '=', claim);
  const job = await db.locked(claimed, 'jobs').executeTakeFirst();
  return job && { ...job, claim };
}

/** Removes a job, if the claim still holds it. */
export async function remove(db: Database, trx: Transaction, job: ClaimedJob): Promise<void> {
  await doomStoredUnder(trx, job);
  await trx.deleteFrom('jobs').where('id', '=', job.id).where('claim', '=', job.claim).execute();
  await moveUp(db, trx, [job]);
  await db.announce(trx, endedClaims(job.holder));
}

export type Cancelled = 'dropped' | 'signalled' | 'none';

/** Cancels jobs: waiting ones are removed (`dropped`), the holders of claimed ones are signalled. */
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

/** Removes jobs, claimed or not, because their subjects are deleted. Holders are signalled. */
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

type Jobs = ReturnType<typeof jobsOf>;

function jobsOf(trx: Transaction) {
  const columns = ['jobs.id', 'jobs.subject_id', 'jobs.claim', 'jobs.lane', 'jobs.run_after'] as const;
  return trx.selectFrom('jobs').select(columns).orderBy('jobs.id');
}

/** Several jobs are always locked in the same order, which prevents deadlocks. */
async function hold(db: Database, trx: Transaction, which: (all: Jobs) => Jobs) {
  return db.locked(which(jobsOf(trx)), 'jobs').execute();
}

function idsOf(jobs: readonly { id: bigint }[]): bigint[] {
  return jobs.map(({ id }) => id);
}

/** The claim is over: its blob goes, unless its outcome made something else refer to it. */
type ReleasedJob = Stored & Pick<ClaimedJob, 'id' | 'claim' | 'holder'>;

/** Lets a job be claimed again: its holder is gone, or gave it back. */
export async function release(
  db: Database,
  trx: Transaction,
  job: ReleasedJob,
  changes: Partial<Pick<JobRow, 'tries' | 'run_after' | 'location'>> = {},
): Promise<boolean> {
  const free = { claim: null, holder: null, claimed_until: null, named_blobs: null, ...nothingStored, ...changes };
  const released = trx.updateTable('jobs').set(free).where('id', '=', job.id).where('claim', '=', job.claim);
  if ((await released.executeTakeFirst()).numUpdatedRows !== 1n) return false;
  await doomStoredUnder(trx, job);
  await db.announce(trx, endedClaims(job.holder));
  await db.announce(trx, queueTopic);
  return true;
}

/** Puts a job off without counting a try; a location may have it before. */
export async function putOff(
  db: Database,
  trx: Transaction,
  job: ClaimedJob,
  until: number,
  location: string | null = null,
): Promise<void> {
  await release(db, trx, job, { tries: job.tries - 1, run_after: BigInt(until), location });
}

/** Makes a job that was put off due now. */
export async function makeDue(db: Database, trx: Transaction, id: bigint): Promise<void> {
  await trx.updateTable('jobs').set({ run_after: 0n }).where('id', '=', id).where('claim', 'is', null).execute();
  await db.announce(trx, queueTopic);
}

/**
 * The same, for all jobs of these kinds of an account that were put off. Jobs that are locked at this moment are
 * skipped: a transaction that puts a job off checks once more whether it has to wait.
 */
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

/** Locks the jobs about several subjects at once, before any of them is changed. */
export async function holdJobsOf(db: Database, trx: Transaction, subjects: readonly bigint[]): Promise<void> {
  if (subjects.length > 0) await hold(db, trx, (all) => all.where('subject_id', 'in', subjects));
}

interface WaitingJobs {
  accountId: bigint;
  /** A condition on `jobs`. */
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

/** Changes the tags of waiting jobs: they need others now. */
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

/**
 * Expires every claim of a holder at once: the holder is known to be gone, or was revoked. The claims change their
 * holder, so that messages it sends at this moment neither count nor extend them.
 */
export async function lapse(db: Database, trx: Transaction, holder: string): Promise<void> {
  const lost = { claimed_until: nobody, holder: `lost: ${holder}` };
  await hold(db, trx, (all) => all.where('claim', 'is not', null).where('holder', '=', holder));
  await trx.updateTable('jobs').set(lost).where('claim', 'is not', null).where('holder', '=', holder).execute();
  await db.announce(trx, claimsTopic);
  await db.announce(trx, queueTopic);
}

/** Keeps the claims of a holder while no server answers it. Its next extension makes them ordinary claims again. */
export async function detachHolder(db: Database, trx: Transaction, holder: string): Promise<void> {
  await hold(db, trx, (all) => all.where('claim', 'is not', null).where('holder', '=', holder));
  const kept = trx.updateTable('jobs').set({ claimed_until: detached }).where('claim', 'is not', null);
  await kept.where('holder', '=', holder).execute();
}
