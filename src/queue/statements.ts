import { sql } from 'kysely';
import { forEachKind, prepared, preparedChange, preparedInsert, preparedWrite } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';
import { literals, oldestWaiting } from './waiting.ts';

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

/** Statements for certain kinds of jobs, made once for each set of kinds. */
export function forKinds<T>(make: (kinds: readonly string[]) => T): (kinds: readonly string[]) => T {
  const made = new Map<string, T>();
  return (kinds) => {
    const name = kinds.join();
    const known = made.get(name) ?? make(kinds);
    made.set(name, known);
    return known;
  };
}

interface Ready {
  account: bigint;
  now: bigint;
  tags: string;
}

/** The oldest job of an account that can begin and that a runner with these tags, or without tags, may have. */
export const readyJobs = forEachKind((db) =>
  forKinds((kinds) => {
    const make = (hasTags: boolean) =>
      prepared<Ready, JobRow>((queries, value) => {
        const tags = hasTags ? value('tags') : undefined;
        const search = { kinds, account: sql`${value('account')}`, now: value('now'), tags };
        return queries
          .selectFrom('jobs')
          .selectAll('jobs')
          .where('jobs.id', '=', sql<bigint>`(${oldestWaiting(db.kind, search)})`);
      });
    return { plain: make(false), tagged: make(true) };
  }),
);

export const waitingJobs = forKinds((kinds) =>
  prepared<{ now: bigint }, JobRow>((queries, value) =>
    queries
      .selectFrom('jobs')
      .selectAll()
      .where('claim', 'is', null)
      .where('kind', 'in', literals(kinds))
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
