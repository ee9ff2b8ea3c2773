import { sql, type RawBuilder } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { forEachKind, prepared } from '../db/prepared.ts';
import { laneIsFree } from './lanes.ts';
import { forKinds, sameAccount } from './statements.ts';

/**
 * Which account is served next. Candidates have a waiting job and are below their limit of jobs under way. The account
 * with the fewest jobs under way is next, and among several the one that was last served longest ago.
 *
 * Both queries follow indexes, however long the queue is. First comes the first account in the order of turns that has
 * a waiting job and none under way. The accounts skipped on the way have jobs under way, which runners have room for
 * few of, or had no jobs for a while and are soon removed (turns.ts). If there is no such account, the jobs under way
 * are counted by account.
 *
 * Jobs under way are counted each time and not kept in a column, so the count cannot go wrong. claiming.ts tells how
 * several servers claim at once without conflicts.
 */
export interface Serving {
  kinds: readonly string[];
  /** An account with this many jobs under way is not served; 0 for no limit. */
  mostRunning?: number | undefined;
  /** A runner that is bound to accounts: only their jobs are served. */
  boundAs?: bigint | undefined;
}

export interface NextAccount {
  account_id: bigint;
  /** How many jobs it has under way. */
  running: bigint | number;
}

interface Values {
  now: bigint;
  most: bigint;
  runner: bigint;
}

const unbounded = 2n ** 62n;
const finders = forEachKind((db) =>
  forKinds((kinds) => {
    const makeBoth = (isBound: boolean) => [findIdle(db, kinds, isBound), findBusy(db, kinds, isBound)];
    return { ofAll: makeBoth(false), ofSome: makeBoth(true) };
  }),
);

/** The account that is served next. */
export async function nextAccount(
  db: Database,
  queries: Queries,
  { kinds, mostRunning, boundAs }: Serving,
): Promise<NextAccount | undefined> {
  const { ofAll, ofSome } = finders(db)(kinds);
  const values = { now: BigInt(Date.now()), most: mostOf(mostRunning), runner: boundAs ?? 0n };
  for (const find of boundAs === undefined ? ofAll : ofSome) {
    const [found] = await find(queries, values);
    if (found) return found;
  }
  return undefined;
}

export function mostOf(mostRunning = 0): bigint {
  return mostRunning > 0 ? BigInt(mostRunning) : unbounded;
}

type Find = (queries: Queries, values: Values) => Promise<readonly Readonly<NextAccount>[]>;

/** Accounts without jobs under way, in the order of their turns. */
function findIdle(db: Database, kinds: RawBuilder<string>[], isBound: boolean): Find {
  return prepared<Values, NextAccount>((queries, value) =>
    queries
      .selectFrom('queue_turns')
      .select(['queue_turns.account_id', sql.lit(0).as('running')])
      .where((where) => where(oldestWaiting(db, queries, kinds, value, 'queue_turns.account_id'), 'is not', null))
      .where((where) => where(anyUnderWay(queries, kinds), 'is', null))
      .$if(isBound, (query) => query.where('queue_turns.account_id', 'in', boundTo(queries, value)))
      .orderBy('queue_turns.turn')
      .limit(sql.lit(1)),
  );
}

/** Accounts with jobs under way and below the limit, the one with the fewest first. */
function findBusy(db: Database, kinds: RawBuilder<string>[], isBound: boolean): Find {
  return prepared<Values, NextAccount>((queries, value) =>
    queries
      .selectFrom('jobs as held')
      .select((of) => ['held.account_id', of.fn.countAll<bigint>().as('running')])
      .where('held.claim', 'is not', null)
      .where('held.kind', 'in', kinds)
      .$if(isBound, (query) => query.where('held.account_id', 'in', boundTo(queries, value)))
      .groupBy('held.account_id')
      .having((of) => of.fn.countAll<bigint>(), '<', value('most'))
      .having((where) => where(oldestWaiting(db, queries, kinds, value, 'held.account_id'), 'is not', null))
      .orderBy((of) => of.fn.countAll<bigint>())
      .orderBy((of) =>
        of
          .selectFrom('queue_turns')
          .select('queue_turns.turn')
          .whereRef('queue_turns.account_id', '=', 'held.account_id'),
      )
      .limit(sql.lit(1)),
  );
}

type Value = <Name extends keyof Values>(name: Name) => Values[Name];

/*
 * Asks for the first row instead of "exists": PostgreSQL would turn "exists" into a join, and read all waiting jobs for
 * one account. `sameAccount` has the same reason.
 */

function oldestWaiting(db: Database, queries: Queries, kinds: RawBuilder<string>[], value: Value, account: string) {
  return queries
    .selectFrom('jobs as any')
    .select('any.id')
    .where(sameAccount(db, 'any', sql.ref(account)))
    .where('any.claim', 'is', null)
    .where('any.kind', 'in', kinds)
    .where('any.run_after', '<=', value('now'))
    .where(laneIsFree('any'))
    .orderBy('any.account_id')
    .orderBy('any.run_after')
    .orderBy('any.id')
    .limit(sql.lit(1));
}

function anyUnderWay(queries: Queries, kinds: RawBuilder<string>[]) {
  return queries
    .selectFrom('jobs as held')
    .select('held.id')
    .where(sql.ref('held.account_id'), '=', sql.ref('queue_turns.account_id'))
    .where('held.claim', 'is not', null)
    .where('held.kind', 'in', kinds)
    .limit(sql.lit(1));
}

function boundTo(queries: Queries, value: Value) {
  return queries
    .selectFrom('runner_accounts')
    .select('runner_accounts.account_id')
    .where('runner_accounts.runner_id', '=', value('runner'));
}
