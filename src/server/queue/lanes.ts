import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';

/**
 * Jobs of a lane run in the order of their numbers. Jobs behind another are not due, so claims do not read them,
 * however many they are.
 */
const inLine = 2n ** 62n;

/**
 * Whether the job is the first of its lane and none of the lane is claimed. Both matter, because a server whose clock
 * is behind gives low numbers to new jobs. A search for an earlier job than the first may make PostgreSQL read all
 * jobs.
 */
export function laneIsFree(job: string): RawBuilder<SqlBool> {
  const [id, lane] = [sql.ref(`${job}.id`), sql.ref(`${job}.lane`)];
  return sql<SqlBool>`(
    ${lane} is null or (
      ${id} = (
        select first.id from jobs as first where first.lane = ${lane} order by first.lane, first.id limit 1
      ) and not exists (select 1 from jobs as held where held.lane = ${lane} and held.claim is not null)
    )
  )`;
}

export async function putInLine(db: Database, trx: Transaction, job: JobRow): Promise<JobRow> {
  if (job.lane === null) return job;
  await holdLane(db, trx, job.lane);
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', job.lane);
  const ahead = others.where((where) => where.or([where('id', '<', job.id), where('claim', 'is not', null)]));
  return (await ahead.limit(1).executeTakeFirst()) ? { ...job, run_after: inLine } : job;
}

/**
 * Makes the next job due in each lane that these jobs left. A job that still waited in its lane frees nothing. The
 * transaction that cancels such a job holds it and must not lock the lane. The end of the job ahead holds the lane and
 * waits for the cancelled job.
 */
export async function moveUp(
  db: Database,
  trx: Transaction,
  jobs: readonly Pick<JobRow, 'lane' | 'run_after'>[],
): Promise<void> {
  const left = new Set(jobs.flatMap(({ lane, run_after: due }) => (lane === null || due === inLine ? [] : [lane])));
  for (const lane of [...left].toSorted()) {
    await holdLane(db, trx, lane);
    while (!(await isMovedUp(trx, lane)));
  }
}

/** False if the next job was cancelled while this transaction waited for it: then another is next. */
async function isMovedUp(trx: Transaction, lane: string): Promise<boolean> {
  const first = trx.selectFrom('jobs').select(['id', 'run_after']).where('lane', '=', lane).orderBy('id').limit(1);
  const next = await first.executeTakeFirst();
  if (next?.run_after !== inLine) return true;
  const due = trx.updateTable('jobs').set({ run_after: 0n }).where('id', '=', next.id);
  return (await due.executeTakeFirst()).numUpdatedRows === 1n;
}

/** Joining a lane, moving it up and claiming from it must take turns, because they would not see each other. */
export async function holdLane(db: Database, trx: Transaction, lane: string): Promise<void> {
  await db.holdRight(trx, 'lane', lane);
}
