import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { prepared, preparedInsert, preparedWrite } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';

/* The statements of the queue that every build makes. */

export const insertJob = preparedInsert('jobs');
export const joinTurns = preparedWrite<{ account: bigint }>((db, value) =>
  db
    .insertInto('queue_turns')
    .values({ account_id: value('account'), turn: sql.lit(0n) })
    .onConflict((conflict) => conflict.column('account_id').doNothing()),
);

/** Another job of the same lane that is older, or claimed: a server whose clock is behind numbers new ones low. */
function laneIsFree(job: string): RawBuilder<SqlBool> {
  const [id, lane] = [sql.ref(`${job}.id`), sql.ref(`${job}.lane`)];
  return sql<SqlBool>`(
    ${lane} is null or not (
      exists (select 1 from jobs as earlier where earlier.lane = ${lane} and earlier.id < ${id})
      or exists (select 1 from jobs as held where held.lane = ${lane} and held.claim is not null)
    )
  )`;
}

/** Statements in which the two databases differ, made once for each. */
function forEachKind<T>(make: (db: Database) => T): (db: Database) => T {
  const made = new Map<string, T>();
  return (db) => {
    const known = made.get(db.kind) ?? make(db);
    made.set(db.kind, known);
    return known;
  };
}

type FindJobs = (queries: Queries, values: { now: bigint }) => Promise<readonly Readonly<JobRow>[]>;

/** Those that look for certain kinds of jobs, made once for each set. */
function forKinds(make: (kinds: RawBuilder<string>[]) => FindJobs): (kinds: readonly string[]) => FindJobs {
  const made = new Map<string, FindJobs>();
  return (kinds) => {
    const name = kinds.join();
    const known = made.get(name) ?? make(kinds.map((kind) => sql.lit(kind)));
    made.set(name, known);
    return known;
  };
}

/** The job whose turn it is, for who claims it. */
export const readyJobs = forEachKind((db) => forKinds((kinds) => findReadyJobs(db, kinds)));

/**
 * First whose turn it is, then that account's oldest job, both along an index: a queue of ten thousand costs what one of
 * ten costs. Where jobs can be locked by others, the account's may all be, so there every account's are looked through.
 */
function findReadyJobs(db: Database, kinds: RawBuilder<string>[]): FindJobs {
  return prepared<{ now: bigint }, JobRow>((queries, value) => {
    const ready = queries
      .selectFrom('jobs')
      .selectAll('jobs')
      .where('jobs.claim', 'is', null)
      .where('jobs.kind', 'in', kinds)
      .where('jobs.run_after', '<=', value('now'))
      .where(laneIsFree('jobs'))
      .limit(sql.lit(1));
    if (!db.inTurns) {
      const withTurns = ready.innerJoin('queue_turns', 'queue_turns.account_id', 'jobs.account_id');
      return db.skipLocked(withTurns.orderBy('queue_turns.turn').orderBy('jobs.id'), 'jobs');
    }
    const next = queries
      .selectFrom('queue_turns')
      .select('queue_turns.account_id')
      .where((where) =>
        where.exists(
          where
            .selectFrom('jobs as any')
            .select('any.id')
            .whereRef('any.account_id', '=', 'queue_turns.account_id')
            .where('any.claim', 'is', null)
            .where('any.kind', 'in', kinds)
            .where('any.run_after', '<=', value('now'))
            .where(laneIsFree('any')),
        ),
      )
      .orderBy('queue_turns.turn')
      .limit(sql.lit(1));
    return ready.where('jobs.account_id', '=', next).orderBy('jobs.id');
  });
}

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
export const passTurn = preparedWrite<{ account: bigint; turn: bigint }>((db, value) =>
  db
    .updateTable('queue_turns')
    .set({ turn: value('turn') })
    .where('account_id', '=', value('account')),
);

export const findClaimed = prepared<{ claim: string }, JobRow>((db, value) =>
  db.selectFrom('jobs').selectAll().where('claim', '=', value('claim')),
);

export const findHeld = prepared<{ holder: string }, JobRow>((db, value) =>
  db.selectFrom('jobs').selectAll().where('claim', 'is not', null).where('holder', '=', value('holder')),
);
export const deleteClaimed = preparedWrite<{ id: bigint; claim: string }>((db, value) =>
  db.deleteFrom('jobs').where('id', '=', value('id')).where('claim', '=', value('claim')),
);
