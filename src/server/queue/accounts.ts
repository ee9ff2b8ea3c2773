import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { literals, oldestWaiting, type Serving } from './waiting.ts';

/**
 * The accounts with a waiting job and below their limit of running jobs. Accounts with the fewest running jobs come
 * first, then accounts not served for longest.
 *
 * The query follows indexes, however long the queue is. Accounts without running jobs come first, in the order of
 * turns. The few accounts with running jobs are skipped on the way. So are accounts without jobs, which are soon
 * removed (account-turns.ts). If no account is found, running jobs are counted by account. They are counted each time,
 * so the count cannot go wrong.
 */
export interface NextAccount {
  account_id: bigint;
  turn: bigint;
}

/** If other claims hold the first accounts, this many more are tried. */
const mostTried = 16;

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

function findIdle(db: Database, queries: Queries, serving: Serving) {
  const account = sql.ref('queue_turns.account_id');
  // PostgreSQL would turn "exists" into a join, so this selects the first row.
  const underWay = queries
    .selectFrom('jobs as held')
    .select('held.id')
    .where(db.isExactly('held.account_id', account))
    .where('held.claim', 'is not', null)
    .where('held.kind', 'in', literals(serving.counted ?? serving.kinds))
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

function findBusy(db: Database, queries: Queries, serving: Serving) {
  const { mostRunning = 0 } = serving;
  return queries
    .selectFrom((of) =>
      of
        .selectFrom('jobs as held')
        .select((column) => ['held.account_id', column.fn.countAll<bigint>().as('running')])
        .where('held.claim', 'is not', null)
        .where('held.kind', 'in', literals(serving.counted ?? serving.kinds))
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
  serving: Serving,
): RawBuilder<SqlBool> {
  return sql<SqlBool>`(${oldestWaiting(db, { ...serving, queries, account })}) is not null`;
}

function boundTo(queries: Queries, { boundAs = 0n }: Serving) {
  return queries
    .selectFrom('runner_accounts')
    .select('runner_accounts.account_id')
    .where('runner_accounts.runner_id', '=', boundAs);
}
