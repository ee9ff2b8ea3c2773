import { sql, type Expression } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import type { IdSource } from '../lib/ids.ts';
import { randomName } from '../lib/random-name.ts';
import { holdNextAccount, nextAccount, type Serving } from './accounts.ts';
import { nobodys } from './lapses.ts';
import {
  deleteClaimed,
  findClaimed,
  findHeld,
  insertJob,
  joinTurns,
  passTurn,
  readyJobs,
  takeJob,
  waitingJobs,
} from './statements.ts';

/**
 * The durable queue. A job is put in within the transaction that causes it, claimed by somebody for a while, kept by
 * extending the claim, and taken out by whoever holds the claim in the transaction that settles it. What it means is
 * not known here.
 *
 * Accounts share what there is: each claim serves the one with the fewest jobs under way, so neither a thousand jobs of
 * one nor its long ones hold up another's single job by more than one job (accounts.ts). Within an account the oldest
 * comes first. Jobs of one lane go one after the other.
 */
export interface NewJob {
  kind: string;
  subjectId: bigint;
  accountId: bigint;
  lane?: string;
  /** How often it was tried before, where it goes on with the work of another job. */
  tries?: number;
  /** Not before this moment. */
  runAfter?: number;
}

/** A job that somebody holds. */
export interface ClaimedJob extends JobRow {
  claim: string;
}

/** Announced when there may be something to claim. */
export const queueTopic = 'queue';
/** Announced when a holder should look at its claims. */
export const claimsTopic = 'claims';

export async function enqueue(db: Database, trx: Transaction, ids: IdSource, job: NewJob): Promise<void> {
  const row: JobRow = {
    id: ids.next(),
    kind: job.kind,
    subject_id: job.subjectId,
    account_id: job.accountId,
    lane: job.lane ?? null,
    tries: job.tries ?? 0,
    run_after: BigInt(job.runAfter ?? 0),
    claim: null,
    holder: null,
    claimed_until: null,
    cancelled: 0,
    named_blobs: null,
    stored_blob: null,
  };
  await insertJob(trx, row);
  await joinTurns(trx, { account: job.accountId });
  await db.announce(trx, queueTopic);
}

interface Claiming extends Serving {
  holder: string;
  seconds: number;
  turn: bigint;
  /** What the claim is called; nobody else can guess it. */
  name?: string;
}

/**
 * Takes the job whose turn it is, for `seconds`; undefined when none waits that may be begun. `overtaken` when somebody
 * else was quicker: there may be more, for another transaction to look at. One transaction claims once.
 */
export async function claim(
  db: Database,
  trx: Transaction,
  { holder, seconds, turn, name = randomName(), ...serving }: Claiming,
): Promise<ClaimedJob | 'overtaken' | undefined> {
  const next = await holdNextAccount(db, trx, serving);
  if (next === undefined || next === 'overtaken') return next;
  const { account_id: account, running } = next;
  const values = { account, now: BigInt(Date.now()), running: BigInt(running) };
  const [job] = await readyJobs(db)(serving.kinds)(trx, values);
  if (!job) return 'overtaken';
  const taken = { claim: name, holder, tries: job.tries + 1 };
  if ((await takeJob(db)(trx, { id: job.id, ...taken, ms: BigInt(seconds * 1000) })) !== 1n) return 'overtaken';
  await passTurn(trx, { account: job.account_id, turn });
  return { ...job, ...taken };
}

/** Takes back a job whose claim was undone with the rest of its transaction. It counts as a try all the same. */
export async function claimAgain(
  db: Database,
  trx: Transaction,
  { id, claim: before, holder, tries }: ClaimedJob,
  seconds: number,
): Promise<ClaimedJob | undefined> {
  const again = { id, claim: before, holder: holder ?? '', tries, ms: BigInt(seconds * 1000) };
  return (await takeJob(db)(trx, again)) === 1n ? jobOf(trx, before) : undefined;
}

/** Whether a claim would find something; cheaper than trying, and cheapest where nothing waits at all. */
export async function isWaiting(db: Database, serving: Serving): Promise<boolean> {
  const waiting = await waitingJobs(serving.kinds)(db.read, { now: BigInt(Date.now()) });
  return waiting.length > 0 && (await nextAccount(db, serving)) !== undefined;
}

/** Keeps the claims of a holder for another while. */
export async function extend(
  db: Database,
  trx: Transaction,
  { holder, claims, seconds }: { holder: string; claims: string[]; seconds: number },
): Promise<void> {
  const mine = { claimed_until: sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}` };
  await trx.updateTable('jobs').set(mine).where('claim', 'in', claims).where('holder', '=', holder).execute();
}

/** Everything that somebody holds. */
export async function heldBy(db: Database, holder: string): Promise<readonly Readonly<JobRow>[]> {
  return findHeld(db.read, { holder });
}

/** The job under a claim; undefined when the claim has lapsed or the job is done. */
export async function jobOf(db: Queries, claim: string): Promise<ClaimedJob | undefined> {
  const [job] = await findClaimed(db, { claim });
  return job && { ...job, claim };
}

/** Takes a job out; false when the claim no longer holds it. */
export async function remove(trx: Transaction, job: ClaimedJob): Promise<boolean> {
  return (await deleteClaimed(trx, { id: job.id, claim: job.claim })) === 1n;
}

/** Calls a job off: one that waits is taken out (`dropped`), of one that is claimed the holder is told. */
export async function cancel(db: Database, trx: Transaction, subjectId: bigint): Promise<'dropped' | 'told' | 'none'> {
  const waiting = trx.deleteFrom('jobs').where('subject_id', '=', subjectId).where('claim', 'is', null);
  if ((await waiting.executeTakeFirst()).numDeletedRows > 0n) return 'dropped';
  const claimed = trx.updateTable('jobs').set({ cancelled: 1 }).where('subject_id', '=', subjectId);
  if ((await claimed.executeTakeFirst()).numUpdatedRows === 0n) return 'none';
  await db.announce(trx, claimsTopic);
  return 'told';
}

/** Takes jobs out, whoever holds them: what they are about goes. Holders are told. */
export async function drop(db: Database, trx: Transaction, subjects: Expression<bigint>): Promise<void> {
  await trx
    .deleteFrom('jobs')
    .where('subject_id', 'in', subjects as never)
    .execute();
  await db.announce(trx, claimsTopic);
  await db.announce(trx, queueTopic); // what waited behind them, or for their account's share, can be begun
}

/** Lets a job be claimed again: the last holder is gone, or gave it back. */
export async function release(db: Database, trx: Transaction, job: Pick<ClaimedJob, 'id' | 'claim'>): Promise<boolean> {
  const free = { claim: null, holder: null, claimed_until: null, named_blobs: null, stored_blob: null };
  const released = trx.updateTable('jobs').set(free).where('id', '=', job.id).where('claim', '=', job.claim);
  if ((await released.executeTakeFirst()).numUpdatedRows !== 1n) return false;
  await db.announce(trx, queueTopic);
  return true;
}

/**
 * Every claim of a holder lapses at once: it is known to be gone, or may do nothing any more. They are nobody's from
 * then on, so that what it sends at this very moment neither counts nor keeps them.
 */
export async function lapse(db: Database, trx: Transaction, holder: string): Promise<void> {
  const lost = { claimed_until: nobodys, holder: `lost: ${holder}` };
  await trx.updateTable('jobs').set(lost).where('claim', 'is not', null).where('holder', '=', holder).execute();
  await db.announce(trx, claimsTopic);
  await db.announce(trx, queueTopic);
}
