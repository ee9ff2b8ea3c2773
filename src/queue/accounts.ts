import { sql, type RawBuilder } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { prepared, preparedWrite } from '../db/prepared.ts';
import { forEachKind, forKinds, laneIsFree } from './statements.ts';

/**
 * Which account is served next: of those that have something waiting and may have more under way, the one with the
 * fewest jobs under way, and of several the one that has waited longest since it was last served.
 *
 * Both ways to it follow indexes, however long the queue is. The first account in the order of turns that waits and has
 * nothing under way is the one; those that are passed over on the way there have something under way, which runners
 * have room for few of. Where there is none, those that have something under way are counted.
 *
 * What is under way is counted each time and not kept in a column: so nothing can put it wrong. Where several servers
 * claim at once, each holds the row of the account it serves until its claim is in the store, and counts after that.
 */
export interface Serving {
  kinds: readonly string[];
  /** An account with so many under way is not served; 0 for no such bound. */
  mostRunning?: number | undefined;
  /** A runner that is bound to accounts: only those are served. */
  boundAs?: bigint | undefined;
}

export interface NextAccount {
  account_id: bigint;
  /** How many it has under way. */
  running: bigint | number;
}

interface Values {
  now: bigint;
  most: bigint;
  runner: bigint;
}

type Find = (queries: Queries, values: Values) => Promise<readonly Readonly<NextAccount>[]>;

interface Variant {
  isBound: boolean;
  /** Whether the row is to be locked, and those passed over that others hold. */
  locks: boolean;
}

const variants = [true, false].flatMap((isBound) => [true, false].map((locks) => ({ isBound, locks })));

const finders = forEachKind((db) =>
  forKinds((kinds) =>
    variants.map((variant) => ({
      ...variant,
      find: [findIdle(db, kinds, variant), findBusy(db, kinds, variant)] as const,
    })),
  ),
);

const unbounded = 2n ** 62n;

async function find(db: Database, queries: Queries, serving: Serving, locks: boolean) {
  const isBound = serving.boundAs !== undefined;
  const variant = finders(db)(serving.kinds).find((one) => one.isBound === isBound && one.locks === locks);
  const most = serving.mostRunning ? BigInt(serving.mostRunning) : unbounded;
  const values = { now: BigInt(Date.now()), most, runner: serving.boundAs ?? 0n };
  for (const look of variant?.find ?? []) {
    const [next] = await look(queries, values);
    if (next) return next;
  }
  return undefined;
}

/** The account that would be served at this moment. */
export async function nextAccount(db: Database, serving: Serving): Promise<NextAccount | undefined> {
  return find(db, db.read, serving, false);
}

/**
 * The account to be served, held until the transaction is over. No transaction holds two of them, so none waits for
 * another in a circle: one that was `overtaken` while it waited ends, and its caller begins anew.
 */
export async function holdNextAccount(
  db: Database,
  trx: Transaction,
  serving: Serving,
): Promise<NextAccount | 'overtaken' | undefined> {
  if (db.inTurns) return find(db, trx, serving, false);
  const free = await find(db, trx, serving, true);
  if (free) return free;
  const busy = await find(db, trx, serving, false);
  if (!busy) return undefined;
  await holdTurn(trx, { account: busy.account_id });
  const now = await find(db, trx, serving, false);
  return now?.account_id === busy.account_id ? now : 'overtaken';
}

const holdTurn = preparedWrite<{ account: bigint }>((db, value) =>
  db
    .updateTable('queue_turns')
    .set((of) => ({ turn: of.ref('turn') }))
    .where('account_id', '=', value('account')),
);

/** The first in turn of those that have nothing under way. */
function findIdle(db: Database, kinds: RawBuilder<string>[], { isBound, locks }: Variant): Find {
  return prepared<Values, NextAccount>((queries, value) => {
    const idle = queries
      .selectFrom('queue_turns')
      .select(['queue_turns.account_id', sql.lit(0).as('running')])
      .where((where) => where.exists(waiting(queries, kinds, value)))
      .where((where) =>
        where.not(
          where.exists(
            underWay(queries, kinds)
              .select('held.id')
              .where(sql.ref('held.account_id'), '=', sql.ref('queue_turns.account_id')),
          ),
        ),
      )
      .$if(isBound, (query) => query.where('queue_turns.account_id', 'in', boundTo(queries, value)))
      .orderBy('queue_turns.turn')
      .limit(sql.lit(1));
    return locks ? db.skipLocked(idle, 'queue_turns') : idle;
  });
}

/** Of those that have something under way and may have more, the one that has the least. */
function findBusy(db: Database, kinds: RawBuilder<string>[], { isBound, locks }: Variant): Find {
  return prepared<Values, NextAccount>((queries, value) => {
    const counted = underWay(queries, kinds)
      .select((of) => ['held.account_id', of.fn.countAll<bigint>().as('running')])
      .groupBy('held.account_id')
      .having((of) => of.fn.countAll<bigint>(), '<', value('most'))
      .as('counted');
    const busy = queries
      .selectFrom('queue_turns')
      .innerJoin(counted, 'counted.account_id', 'queue_turns.account_id')
      .select(['queue_turns.account_id', 'counted.running'])
      .where((where) => where.exists(waiting(queries, kinds, value)))
      .$if(isBound, (query) => query.where('queue_turns.account_id', 'in', boundTo(queries, value)))
      .orderBy('counted.running')
      .orderBy('queue_turns.turn')
      .limit(sql.lit(1));
    return locks ? db.skipLocked(busy, 'queue_turns') : busy;
  });
}

type Value = <Name extends keyof Values>(name: Name) => Values[Name];

function waiting(queries: Queries, kinds: RawBuilder<string>[], value: Value) {
  return queries
    .selectFrom('jobs as any')
    .select('any.id')
    .where(sql.ref('any.account_id'), '=', sql.ref('queue_turns.account_id'))
    .where('any.claim', 'is', null)
    .where('any.kind', 'in', kinds)
    .where('any.run_after', '<=', value('now'))
    .where(laneIsFree('any'));
}

function underWay(queries: Queries, kinds: RawBuilder<string>[]) {
  return queries.selectFrom('jobs as held').where('held.claim', 'is not', null).where('held.kind', 'in', kinds);
}

function boundTo(queries: Queries, value: Value) {
  return queries
    .selectFrom('runner_accounts')
    .select('runner_accounts.account_id')
    .where('runner_accounts.runner_id', '=', value('runner'));
}
