import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { literals, oldestWaiting } from './waiting.ts';

/**
 * Which accounts are served next. Candidates have a waiting job and are below their limit of jobs under way. The account
 * with the fewest jobs under way is next, and among several the one that was last served longest ago.
 *
 * The query follows indexes, however long the queue is. First come the accounts in the order of turns that have a
 * waiting job and none under way. The accounts skipped on the way have jobs under way, which runners have room for few
 * of, or had no jobs for a while and are soon removed (account-turns.ts). If there is no such account, the jobs under
 * way are counted by account.
 *
 * Jobs under way are counted each time and not kept in a column, so the count cannot go wrong.
 */
export interface Serving {
  kinds: readonly string[];
  /** An account with this many jobs under way is not served; 0 for no limit. */
  mostRunning?: number | undefined;
  /** A runner that is bound to accounts: only their jobs are served. */
  boundAs?: bigint | undefined;
  /** The runner's tags, as one text: jobs that need others are not served. */
  tags?: string | undefined;
  /** The location that the runner is: jobs that prefer it need not be due. */
  location?: string | undefined;
  /** Whether it wants no others. */
  isLeaving?: boolean | undefined;
}

export interface NextAccount {
  account_id: bigint;
  /** When it was last served. */
  turn: bigint;
}

/** If other claims hold the first accounts, the next ones are tried, up to this many. */
const mostTried = 16;

/** The accounts that are served next, in their order. */
export function nextAccounts(db: Database, queries: Queries, serving: Serving): Promise<NextAccount[]> {
  return queries
    .with(
      (cte) => cte('idle').materialized(),
      () => findIdle(db, queries, serving),
    )
    .selectFrom((of) =>
      of
        .selectFrom('idle')
        .select(['account_id', 'turn', sql<bigint>`0`.as('running')])
        .unionAll(findBusy(db, queries, serving).where(sql<SqlBool>`not exists (select 1 from idle)`))
        .as('candidates'),
    )
    .select(['account_id', 'turn'])
    .orderBy('running')
    .orderBy('turn')
    .limit(mostTried)
    .execute();
}

/** Accounts without jobs under way, in the order of their turns. */
function findIdle(db: Database, queries: Queries, serving: Serving) {
  const account = sql.ref('queue_turns.account_id');
  // The first one is asked for instead of "exists", which PostgreSQL would turn into a join.
  const underWay = queries
    .selectFrom('jobs as held')
    .select('held.id')
    .where(db.isExactly('held.account_id', account))
    .where('held.claim', 'is not', null)
    .where('held.kind', 'in', literals(serving.kinds))
    .orderBy('held.account_id')
    .limit(1);
  return queries
    .selectFrom('queue_turns')
    .select(['queue_turns.account_id', 'queue_turns.turn'])
    .where(hasWaiting(db, queries, account, serving))
    .where((where) => where(underWay, 'is', null))
    .$if(serving.boundAs !== undefined, (query) =>
      query.where('queue_turns.account_id', 'in', boundTo(queries, serving)),
    )
    .orderBy('queue_turns.turn')
    .limit(mostTried);
}

/** Accounts with jobs under way and below the limit. */
function findBusy(db: Database, queries: Queries, serving: Serving) {
  const { mostRunning = 0 } = serving;
  return queries
    .selectFrom((of) =>
      of
        .selectFrom('jobs as held')
        .select((column) => ['held.account_id', column.fn.countAll<bigint>().as('running')])
        .where('held.claim', 'is not', null)
        .where('held.kind', 'in', literals(serving.kinds))
        .$if(serving.boundAs !== undefined, (query) => query.where('held.account_id', 'in', boundTo(queries, serving)))
        .groupBy('held.account_id')
        .as('counted'),
    )
    .innerJoin('queue_turns', 'queue_turns.account_id', 'counted.account_id')
    .select(['counted.account_id', 'queue_turns.turn', 'counted.running'])
    .$if(mostRunning > 0, (query) => query.where('counted.running', '<', BigInt(mostRunning)))
    .where(hasWaiting(db, queries, sql.ref('queue_turns.account_id'), serving));
}

function hasWaiting(
  db: Database,
  queries: Queries,
  account: RawBuilder<unknown>,
  { kinds, tags = '', location, isLeaving }: Serving,
): RawBuilder<SqlBool> {
  const search = { queries, kinds, account, now: BigInt(Date.now()), tags, location, isLeaving };
  return sql<SqlBool>`(${oldestWaiting(db, search)}) is not null`;
}

function boundTo(queries: Queries, { boundAs = 0n }: Serving) {
  return queries
    .selectFrom('runner_accounts')
    .select('runner_accounts.account_id')
    .where('runner_accounts.runner_id', '=', boundAs);
}
