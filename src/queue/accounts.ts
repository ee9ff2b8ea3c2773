import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { forEachKind, prepared } from '../db/prepared.ts';
import { forKinds } from './statements.ts';
import { literals, oldestWaiting } from './waiting.ts';

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
  /** The runner's tags, as one text: jobs that need others are not served. */
  tags?: string | undefined;
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
  tags: string;
}

const unbounded = 2n ** 62n;
const finders = forEachKind((db) =>
  forKinds((kinds) => {
    const makeBoth = (runner: RunnerKind) => [findIdle(db, kinds, runner), findBusy(db, kinds, runner)];
    return forEachRunnerKind(makeBoth);
  }),
);

/** The account that is served next. */
export async function nextAccount(db: Database, queries: Queries, serving: Serving): Promise<NextAccount | undefined> {
  const { kinds, mostRunning, boundAs, tags = '' } = serving;
  const values = { now: BigInt(Date.now()), most: mostOf(mostRunning), runner: boundAs ?? 0n, tags };
  for (const find of finders(db)(kinds)(serving)) {
    const [found] = await find(queries, values);
    if (found) return found;
  }
  return undefined;
}

/** Runners for which there are different statements, made once for each. */
export interface RunnerKind {
  isBound: boolean;
  hasTags: boolean;
}

export function forEachRunnerKind<T>(make: (runner: RunnerKind) => T): (serving: Serving) => T {
  const [unbound, bound] = [false, true].map((isBound) => ({
    plain: make({ isBound, hasTags: false }),
    tagged: make({ isBound, hasTags: true }),
  }));
  return ({ boundAs, tags = '' }) => {
    const made = boundAs === undefined ? unbound : bound;
    if (!made) throw new Error('no statement for this runner');
    return tags === '' ? made.plain : made.tagged;
  };
}

export function mostOf(mostRunning = 0): bigint {
  return mostRunning > 0 ? BigInt(mostRunning) : unbounded;
}

type Find = (queries: Queries, values: Values) => Promise<readonly Readonly<NextAccount>[]>;

/** Accounts without jobs under way, in the order of their turns. */
function findIdle(db: Database, kinds: readonly string[], { isBound, hasTags }: RunnerKind): Find {
  return prepared<Values, NextAccount>((queries, value) =>
    queries
      .selectFrom('queue_turns')
      .select(['queue_turns.account_id', sql.lit(0).as('running')])
      .where(hasWaiting(db, kinds, value, 'queue_turns.account_id', hasTags))
      .where((where) => where(anyUnderWay(queries, kinds), 'is', null))
      .$if(isBound, (query) => query.where('queue_turns.account_id', 'in', boundTo(queries, value)))
      .orderBy('queue_turns.turn')
      .limit(sql.lit(1)),
  );
}

/** Accounts with jobs under way and below the limit, the one with the fewest first. */
function findBusy(db: Database, kinds: readonly string[], { isBound, hasTags }: RunnerKind): Find {
  return prepared<Values, NextAccount>((queries, value) =>
    queries
      .selectFrom('jobs as held')
      .select((of) => ['held.account_id', of.fn.countAll<bigint>().as('running')])
      .where('held.claim', 'is not', null)
      .where('held.kind', 'in', literals(kinds))
      .$if(isBound, (query) => query.where('held.account_id', 'in', boundTo(queries, value)))
      .groupBy('held.account_id')
      .having((of) => of.fn.countAll<bigint>(), '<', value('most'))
      .having(hasWaiting(db, kinds, value, 'held.account_id', hasTags))
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

function hasWaiting(
  db: Database,
  kinds: readonly string[],
  value: Value,
  account: string,
  hasTags: boolean,
): RawBuilder<SqlBool> {
  const search = {
    kinds,
    account: sql.ref(account),
    now: value('now'),
    tags: hasTags ? value('tags') : undefined,
  };
  return sql<SqlBool>`(${oldestWaiting(db.kind, search)}) is not null`;
}

function anyUnderWay(queries: Queries, kinds: readonly string[]) {
  return queries
    .selectFrom('jobs as held')
    .select('held.id')
    .where(sql.ref('held.account_id'), '=', sql.ref('queue_turns.account_id'))
    .where('held.claim', 'is not', null)
    .where('held.kind', 'in', literals(kinds))
    .limit(sql.lit(1));
}

function boundTo(queries: Queries, value: Value) {
  return queries
    .selectFrom('runner_accounts')
    .select('runner_accounts.account_id')
    .where('runner_accounts.runner_id', '=', value('runner'));
}
