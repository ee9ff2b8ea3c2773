import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';

/**
 * Jobs of one lane run one after the other, in the order of their numbers. `laneIsFree` decides whether a job may
 * begin. Jobs behind another one are not due, so a claim does not read them, however many they are. When a job leaves
 * its lane, the next one becomes due.
 */
const inLine = 2n ** 62n;

/**
 * Whether the job is the first of its lane and none of the lane is claimed. Both are checked, because a server whose
 * clock is behind gives low numbers to new jobs. The first job is found by the index of lanes; to find an earlier one,
 * PostgreSQL may read all jobs.
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

/** The row of a new job that joins its lane. */
export async function putInLine(db: Database, trx: Transaction, job: JobRow): Promise<JobRow> {
  if (job.lane === null) return job;
  await holdLane(db, trx, job.lane);
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', job.lane);
  const ahead = others.where((where) => where.or([where('id', '<', job.id), where('claim', 'is not', null)]));
  return (await ahead.limit(1).executeTakeFirst()) ? { ...job, run_after: inLine } : job;
}

/**
 * These jobs left their lanes: the next job of each lane becomes due. One that stood in line leaves no room. Whoever
 * calls it off holds it, and must not want the lane: the end of the job before it holds the lane, and wants the next one.
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

/** False where the next one was called off while this transaction waited for it: then another one is next. */
async function isMovedUp(trx: Transaction, lane: string): Promise<boolean> {
  const first = trx.selectFrom('jobs').select(['id', 'run_after']).where('lane', '=', lane).orderBy('id').limit(1);
  const next = await first.executeTakeFirst();
  if (next?.run_after !== inLine) return true;
  const due = trx.updateTable('jobs').set({ run_after: 0n }).where('id', '=', next.id);
  return (await due.executeTakeFirst()).numUpdatedRows === 1n;
}

/** Joining a lane, moving it up and claiming from it must not happen at the same moment: neither would see the other. */
export async function holdLane(db: Database, trx: Transaction, lane: string): Promise<void> {
  await db.holdRight(trx, 'lane', lane);
}
