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
 * A job is added in the transaction that causes it and claimed for a while. The claim's holder removes it in the
 * transaction that settles it. Each claim serves the account with the fewest running jobs, so one account's jobs delay
 * another's single job by at most one job (accounts.ts). Within an account the oldest job is first.
 */
export interface NewJob {
  kind: string;
  subjectId: bigint;
  accountId: bigint;
  lane?: string;
  /** Set if it continues the work of another job. */
  tries?: number;
  runAfter?: number;
  /** A caller waits for it: it precedes all other jobs of its account. */
  isAwaited?: boolean;
  tags?: string;
  /** The location that may have it before it is due. */
  location?: string | undefined;
}

export interface ClaimedJob extends JobRow {
  claim: string;
}

const mostNamed = 500;

export const queueTopic = 'queue';
/** Announced when holders should check their claims. */
export const claimsTopic = 'claims';
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

/** Jobs begin in the order of their numbers; negative ones first. */
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
  /** Must be unguessable. */
  name?: string;
}

/**
 * Undefined if no waiting job may begin. `overtaken`: another claim was faster, and there may be more jobs for another
 * transaction. One transaction claims at most one job.
 */
export async function claim(
  db: Database,
  trx: Transaction,
  { holder, seconds, turn, name = randomName(), ...serving }: Claiming,
): Promise<ClaimedJob | 'overtaken' | undefined> {
  const next = await db.alongIndexes(trx, () => findNext(db, trx, serving));
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

/** The longest due, of a kind that servers run themselves, without fairness between accounts. */
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

/** For a claim that was rolled back with its transaction. It still counts as a try. */
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

/** It may be unable to begin yet; only a claim finds that out. */
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

export async function extend(
  db: Database,
  trx: Transaction,
  { holder, claims, seconds }: { holder: string; claims: string[]; seconds: number },
): Promise<void> {
  if (claims.length > 1) await hold(db, trx, (all) => all.where('claim', 'in', claims).where('holder', '=', holder));
  const mine = { claimed_until: sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}` };
  await trx.updateTable('jobs').set(mine).where('claim', 'in', claims).where('holder', '=', holder).execute();
}

export async function heldBy(db: Database, holder: string): Promise<JobRow[]> {
  return findHeld(db.read, holder);
}

export type HeldClaim = { holder: string; claim: string } & Pick<JobRow, 'cancelled'>;

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

/** Undefined if the claim has expired or the job is done. */
export async function jobOf(db: Queries, claim: string): Promise<ClaimedJob | undefined> {
  const job = await db.selectFrom('jobs').selectAll().where('claim', '=', claim).executeTakeFirst();
  return job && { ...job, claim };
}

/** Locks the job until the transaction ends. A transaction that settles a job begins with this. */
export async function holdJob(db: Database, trx: Transaction, claim: string): Promise<ClaimedJob | undefined> {
  const claimed = trx.selectFrom('jobs').selectAll().where('claim', '=', claim);
  const job = await db.locked(claimed, 'jobs').executeTakeFirst();
  return job && { ...job, claim };
}

/** Only if the claim is still valid. */
export async function remove(db: Database, trx: Transaction, job: ClaimedJob): Promise<void> {
  await doomStoredUnder(trx, job);
  await trx.deleteFrom('jobs').where('id', '=', job.id).where('claim', '=', job.claim).execute();
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

/** Claimed or not. For subjects that are deleted. Holders are signalled. */
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

/** Locks jobs in a fixed order, which prevents deadlocks. */
async function hold(db: Database, trx: Transaction, which: (all: Jobs) => Jobs) {
  return db.locked(which(jobsOf(trx)), 'jobs').execute();
}

function idsOf(jobs: readonly { id: bigint }[]): bigint[] {
  return jobs.map(({ id }) => id);
}

/** Its blob is removed, unless its outcome added another reference. */
type ReleasedJob = Stored & Pick<ClaimedJob, 'id' | 'claim' | 'holder'>;

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

/** Counts no try. A location may have the job before. */
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

/** Skips locked jobs: a transaction that puts a job off checks again whether it must wait. */
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

/** Call before any of them is changed. */
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

/** Its holder is gone, or was revoked. The claims get another holder, so its messages of this moment do not count. */
export async function lapse(db: Database, trx: Transaction, holder: string): Promise<void> {
  const lost = { claimed_until: nobody, holder: `lost: ${holder}` };
  await hold(db, trx, (all) => all.where('claim', 'is not', null).where('holder', '=', holder));
  await trx.updateTable('jobs').set(lost).where('claim', 'is not', null).where('holder', '=', holder).execute();
  await db.announce(trx, claimsTopic);
  await db.announce(trx, queueTopic);
}

/** While no server serves the holder. Its next extension makes them ordinary claims again. */
export async function detachHolder(db: Database, trx: Transaction, holder: string): Promise<void> {
  await hold(db, trx, (all) => all.where('claim', 'is not', null).where('holder', '=', holder));
  const kept = trx.updateTable('jobs').set({ claimed_until: detached }).where('claim', 'is not', null);
  await kept.where('holder', '=', holder).execute();
}
