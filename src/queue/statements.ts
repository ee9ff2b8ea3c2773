import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../db/open.ts';
import { forEachKind, prepared, preparedChange, preparedInsert, preparedWrite } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';
import { laneIsFree } from './lanes.ts';

/* The statements of the queue that every build uses. */

export const insertJobs = preparedInsert('jobs');
/**
 * An account that has a turn already is not touched: on PostgreSQL an insert that finds a row waits for the transaction
 * that changes it, which is a claim for this account.
 */
export const joinTurns = preparedChange<{ account: bigint }>((db, value) =>
  db
    .insertInto('queue_turns')
    .columns(['account_id', 'turn'])
    .expression(
      db
        .selectNoFrom([sql<bigint>`cast(${value('account')} as bigint)`.as('account_id'), sql.lit(0n).as('turn')])
        .where((where) =>
          where.not(
            where.exists(db.selectFrom('queue_turns').select('turn').where('account_id', '=', value('account'))),
          ),
        ),
    )
    .onConflict((conflict) => conflict.column('account_id').doNothing()),
);

/**
 * A condition for an account's jobs that makes each database use the index of waiting jobs by account. With an
 * equality, PostgreSQL may read the jobs of all accounts by age until it finds one of this account; SQLite needs the
 * equality.
 */
export function sameAccount(
  { kind }: Database,
  job: string,
  account: RawBuilder<unknown> | bigint,
): RawBuilder<SqlBool> {
  const own = sql.ref(`${job}.account_id`);
  if (kind === 'sqlite') return sql<SqlBool>`${own} = ${account}`;
  return sql<SqlBool>`(${own} >= ${account} and ${own} <= ${account})`;
}

/** Statements for certain kinds of jobs, made once for each set of kinds. */
export function forKinds<T>(make: (kinds: RawBuilder<string>[]) => T): (kinds: readonly string[]) => T {
  const made = new Map<string, T>();
  return (kinds) => {
    const name = kinds.join();
    const known = made.get(name) ?? make(kinds.map((kind) => sql.lit(kind)));
    made.set(name, known);
    return known;
  };
}

/** The oldest job of an account that can begin. */
export const readyJobs = forEachKind((db) =>
  forKinds((kinds) =>
    prepared<{ account: bigint; now: bigint }, JobRow>((queries, value) =>
      queries
        .selectFrom('jobs')
        .selectAll('jobs')
        .where(sameAccount(db, 'jobs', value('account')))
        .where('jobs.claim', 'is', null)
        .where('jobs.kind', 'in', kinds)
        .where('jobs.run_after', '<=', value('now'))
        .where(laneIsFree('jobs'))
        .orderBy('jobs.account_id')
        .orderBy('jobs.run_after')
        .orderBy('jobs.id')
        .limit(sql.lit(1)),
    ),
  ),
);

export const waitingJobs = forKinds((kinds) =>
  prepared<{ now: bigint }, JobRow>((queries, value) =>
    queries
      .selectFrom('jobs')
      .selectAll()
      .where('claim', 'is', null)
      .where('kind', 'in', kinds)
      .where('run_after', '<=', value('now'))
      .limit(sql.lit(1)),
  ),
);

interface Taking {
  id: bigint;
  claim: string;
  holder: string;
  tries: number;
  ms: bigint;
}

export const takeJob = forEachKind((db) =>
  preparedWrite<Taking>((queries, value) =>
    queries
      .updateTable('jobs')
      .set({ claim: value('claim'), holder: value('holder'), tries: value('tries') })
      .set({ claimed_until: sql<bigint>`${db.clock} + ${value('ms')}` })
      .where('id', '=', value('id'))
      .where('claim', 'is', null),
  ),
);
export const passTurn = preparedChange<{ account: bigint; turn: bigint }>((db, value) =>
  db
    .updateTable('queue_turns')
    .set({ turn: value('turn') })
    .where('account_id', '=', value('account')),
);

export const findClaimed = prepared<{ claim: string }, JobRow>((db, value) =>
  db.selectFrom('jobs').selectAll().where('claim', '=', value('claim')),
);

export const holdClaimed = forEachKind((db) =>
  prepared<{ claim: string }, JobRow>((queries, value) =>
    db.locked(queries.selectFrom('jobs').selectAll().where('claim', '=', value('claim')), 'jobs'),
  ),
);

export const findHeld = prepared<{ holder: string }, JobRow>((db, value) =>
  db.selectFrom('jobs').selectAll().where('claim', 'is not', null).where('holder', '=', value('holder')),
);
export const deleteClaimed = preparedChange<{ id: bigint; claim: string }>((db, value) =>
  db.deleteFrom('jobs').where('id', '=', value('id')).where('claim', '=', value('claim')),
);
