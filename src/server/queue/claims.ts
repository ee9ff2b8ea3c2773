import { sql, type RawBuilder } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { nextAccounts, type NextAccount } from './accounts.ts';
import { holdLane } from './lanes.ts';
import { take, type ClaimedJob } from './leases.ts';
import { highestWaiting, nextTags, oldestOf, type Serving } from './waiting.ts';

/**
 * A claim for a runner. It locks its account's turn, so concurrent claims serve the next account. If no other account
 * has a job, they take the same account's next job, so claims never wait. The exception is a limit of running jobs,
 * which makes an account's claims sequential. Then a claim that finds the turn locked waits. That claim counts only if
 * the turn shows no other claim for the account since its jobs were counted.
 */
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
  const found = await db.alongIndexes(trx, () => findNext(db, trx, serving));
  if (found === undefined || found === 'overtaken') return found;
  const { job, turnOf: account = null } = found;
  const passTurn = trx.updateTable('queue_turns').set({ turn }).where('account_id', '=', account);
  const [taken] = await Promise.all([
    take(db, trx, job, { claim: name, holder, tries: job.tries + 1, seconds }),
    account === null ? undefined : passTurn.execute(),
  ]);
  return taken;
}

/** Locks the job. `turnOf`: the account whose turn is locked too, and passes with the claim. */
async function findNext(
  db: Database,
  trx: Transaction,
  serving: Serving,
): Promise<{ job: JobRow; turnOf: bigint | undefined } | 'overtaken' | undefined> {
  const accounts = await nextAccounts(db, trx, serving);
  const [first] = accounts;
  if (!first) return undefined;
  const { mostRunning = 0, tags = '' } = serving;
  const held = mostRunning > 0 ? await waitForTurn(db, trx, first) : await holdTurn(db, trx, accounts);
  if (mostRunning > 0 && !held) return 'overtaken';
  const job = await nextFree(db, trx, held?.account_id ?? first.account_id, serving);
  // If the only account has no free job, other claims hold all its waiting jobs. For a runner with tags, this is known
  // only for jobs with the oldest job's tags.
  if (!job) return mostRunning === 0 && accounts.length === 1 && tags === '' ? undefined : 'overtaken';
  if (job.lane !== null && !(await isAlone(db, trx, job.lane, job.id))) return 'overtaken';
  return { job, turnOf: held?.account_id };
}

/** The first account whose turn is unlocked and was not taken meanwhile. */
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

/** The account's next job that no other claim holds: the highest priority first, then the oldest. */
async function nextFree(
  db: Database,
  trx: Transaction,
  accountId: bigint,
  serving: Serving,
): Promise<JobRow | undefined> {
  const search = { ...serving, queries: trx, account: sql`${accountId}` };
  const take = (tags: string, priority: RawBuilder<number | null>) =>
    db
      .skipLocked(oldestOf(search, { tags: sql.lit(tags), priority }).selectAll('waiting'), 'waiting')
      .executeTakeFirst();
  if ((serving.tags ?? '') !== '') {
    const { rows } = await nextTags(db, search).execute(trx);
    return rows[0] && take(rows[0].tags, sql.lit(rows[0].priority));
  }
  const highest = (below?: number) => highestWaiting(search, { tags: sql.lit(''), below });
  const first = await take('', highest());
  if (first) return first;
  // Other claims hold the jobs of the highest priority.
  for (let below: number | undefined; ;) {
    const { rows } = await sql<{ priority: number | null }>`select ${highest(below)} as priority`.execute(trx);
    const priority = rows[0]?.priority ?? null;
    if (priority === null) return undefined;
    const job = await take('', sql.lit(priority));
    if (job) return job;
    below = priority;
  }
}

/** Two jobs of one lane may have been found at the same moment, so the lane is locked and checked. */
async function isAlone(db: Database, trx: Transaction, lane: string, id: bigint): Promise<boolean> {
  await holdLane(db, trx, lane);
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', lane).where('claim', 'is not', null);
  return (await others.where('id', '!=', id).executeTakeFirst()) === undefined;
}
