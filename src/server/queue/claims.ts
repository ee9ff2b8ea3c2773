import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { nextAccounts, type NextAccount, type Serving } from './accounts.ts';
import { holdLane } from './lanes.ts';
import { oldestWaiting, oldestWith } from './waiting.ts';

/**
 * Finds and locks the next job. A claim locks its account's turn, so concurrent claims serve the next account. If no
 * other account has a job, they take the next job of the same one, so claims never wait. Only with a limit of running
 * jobs are an account's claims sequential: a claim that finds the turn locked waits. It counts only if the turn shows
 * no other claim for the account since its jobs were counted.
 */
export interface Found {
  job: JobRow;
  /** Set if the claim has locked the account's turn, which passes with it. */
  turnOf: bigint | undefined;
}

/** `overtaken`: another claim was faster, and there may be more jobs for another transaction. */
export async function findNext(
  db: Database,
  trx: Transaction,
  serving: Serving,
): Promise<Found | 'overtaken' | undefined> {
  const accounts = await nextAccounts(db, trx, serving);
  const [first] = accounts;
  if (!first) return undefined;
  const { mostRunning = 0, tags = '' } = serving;
  const held = mostRunning > 0 ? await waitForTurn(db, trx, first) : await holdTurn(db, trx, accounts);
  if (mostRunning > 0 && !held) return 'overtaken';
  const job = await oldestFree(db, trx, held?.account_id ?? first.account_id, serving);
  // One account without a free job: other claims hold all its waiting jobs. For a runner with tags, this is known only
  // of jobs with the oldest job's tags.
  if (!job) return mostRunning === 0 && accounts.length === 1 && tags === '' ? undefined : 'overtaken';
  if (job.lane !== null && !(await isAlone(db, trx, job.lane, job.id))) return 'overtaken';
  return { job, turnOf: held?.account_id };
}

/** The first whose turn is not held or taken meanwhile. */
async function holdTurn(
  db: Database,
  trx: Transaction,
  accounts: readonly NextAccount[],
): Promise<NextAccount | undefined> {
  for (const account of accounts) {
    const held = await db.skipLocked(turnOf(trx, account), 'queue_turns').executeTakeFirst();
    if (held) return account;
  }
  return undefined;
}

async function waitForTurn(db: Database, trx: Transaction, account: NextAccount): Promise<NextAccount | undefined> {
  return (await db.locked(turnOf(trx, account), 'queue_turns').executeTakeFirst()) && account;
}

function turnOf(trx: Transaction, { account_id: account, turn }: NextAccount) {
  return trx.selectFrom('queue_turns').select('turn').where('account_id', '=', account).where('turn', '=', turn);
}

async function oldestFree(
  db: Database,
  trx: Transaction,
  accountId: bigint,
  { kinds, tags = '', location, isLeaving }: Serving,
): Promise<JobRow | undefined> {
  const account = sql`${accountId}`;
  const search = { queries: trx, kinds, account, now: BigInt(Date.now()), tags, location, isLeaving };
  // The tags of the oldest job that fits. Of the jobs with these tags, the first free one is taken.
  const fitting = async (): Promise<string | undefined> => {
    const oldest = trx
      .selectFrom('jobs')
      .select('tags')
      .where('id', '=', sql<bigint>`(${oldestWaiting(db, search)})`);
    return (await oldest.executeTakeFirst())?.tags;
  };
  const needed = tags === '' ? '' : await fitting();
  if (needed === undefined) return undefined;
  return db.skipLocked(oldestWith(db, search, sql.lit(needed)).selectAll('waiting'), 'waiting').executeTakeFirst();
}

/** Two jobs of one lane may have been found at the same moment, so the lane is locked and checked. */
async function isAlone(db: Database, trx: Transaction, lane: string, id: bigint): Promise<boolean> {
  await holdLane(db, trx, lane);
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', lane).where('claim', 'is not', null);
  return (await others.where('id', '!=', id).executeTakeFirst()) === undefined;
}

/** The caller has locked the unclaimed job. A condition on that would make PostgreSQL read all unclaimed jobs. */
export async function takeJob(
  db: Database,
  trx: Transaction,
  { id, ...taken }: Pick<JobRow, 'id' | 'claim' | 'holder' | 'tries'>,
  seconds: number,
): Promise<void> {
  const until = sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}`;
  await trx
    .updateTable('jobs')
    .set({ ...taken, claimed_until: until })
    .where('id', '=', id)
    .execute();
}

export async function claimsUnderWay(db: Queries): Promise<string[]> {
  const held = await db.selectFrom('jobs').select('claim').where('claim', 'is not', null).execute();
  return held.flatMap(({ claim: name }) => name ?? []);
}
