import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { nextAccounts, type NextAccount, type Serving } from './accounts.ts';
import { holdLane } from './lanes.ts';
import { oldestWaiting, oldestWith } from './waiting.ts';

/**
 * Finds the job that is claimed next, and locks it until the transaction is over.
 *
 * A claim locks the turn of its account, so concurrent claims skip that account and serve the next one. If no other
 * account has a waiting job, they take the next job of the same account: no claim waits for another. Only with a limit
 * of jobs under way must the claims of an account come one after the other. Then a claim counts only if no other claim
 * for the account was made since its jobs were counted, which its turn shows; a claim that finds the turn locked waits.
 */
export interface Found {
  job: JobRow;
  /** The account whose turn passes with the claim, where the claim has locked it. */
  turnOf: bigint | undefined;
}

/** `overtaken` means that another claim was faster: there may be more jobs, for another transaction. */
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
  // One account without a free job: other claims hold all its waiting jobs. For a runner with tags that is known only of
  // jobs with the same tags as the oldest one.
  if (!job) return mostRunning === 0 && accounts.length === 1 && tags === '' ? undefined : 'overtaken';
  if (job.lane !== null && !(await isAlone(db, trx, job.lane, job.id))) return 'overtaken';
  return { job, turnOf: held?.account_id };
}

/** The first account whose turn nobody else holds or has taken meanwhile. */
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

/** The oldest job of an account that no other claim holds. */
async function oldestFree(
  db: Database,
  trx: Transaction,
  accountId: bigint,
  { kinds, tags = '', location, isLeaving }: Serving,
): Promise<JobRow | undefined> {
  const account = sql`${accountId}`;
  const search = { queries: trx, kinds, account, now: BigInt(Date.now()), tags, location, isLeaving };
  // The tags of the oldest job that fits. Of the jobs with these tags, the first that is free is taken.
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

/**
 * The caller has locked the job and knows that nobody has claimed it. The condition would be no help: PostgreSQL might
 * read all unclaimed jobs for it.
 */
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

/** All claims that somebody has. */
export async function claimsUnderWay(db: Queries): Promise<string[]> {
  const held = await db.selectFrom('jobs').select('claim').where('claim', 'is not', null).execute();
  return held.flatMap(({ claim: name }) => name ?? []);
}
