import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';

/**
 * Jobs of one lane are done one after the other, in the order of their numbers. What may be begun is decided by
 * `laneIsFree`. Those that stand behind another are not due: however many they are, whoever claims does not walk past
 * them. Whoever takes a job out of a lane lets the next one move up.
 */
const inLine = 2n ** 62n;

/**
 * It is the first of its lane, and none is claimed: a server whose clock is behind numbers new ones low. Which one is the
 * first is asked along the index of lanes; whether there is an earlier one, PostgreSQL would as soon look for among all.
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

/** A new job as it goes into its lane. */
export async function putInLine(db: Database, trx: Transaction, job: JobRow): Promise<JobRow> {
  if (job.lane === null) return job;
  await holdLane(db, trx, job.lane);
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', job.lane);
  const ahead = others.where((where) => where.or([where('id', '<', job.id), where('claim', 'is not', null)]));
  return (await ahead.limit(1).executeTakeFirst()) ? { ...job, run_after: inLine } : job;
}

/** Jobs were taken out of these lanes: in each, the next one is due. */
export async function moveUp(db: Database, trx: Transaction, lanes: readonly (string | null)[]): Promise<void> {
  const left = new Set(lanes.filter((lane) => lane !== null));
  for (const lane of [...left].toSorted()) {
    await holdLane(db, trx, lane);
    const next = trx.selectFrom('jobs').select('id').where('lane', '=', lane).orderBy('id').limit(1);
    await trx
      .updateTable('jobs')
      .set({ run_after: 0n })
      .where('id', 'in', next)
      .where('run_after', '=', inLine)
      .execute();
  }
}

/** Who goes into a lane and who moves the next one up do not do so at the same moment, or neither would see the other. */
async function holdLane({ inTurns }: Database, trx: Transaction, lane: string): Promise<void> {
  if (!inTurns) await sql`select pg_advisory_xact_lock(hashtextextended(${lane}, 1))`.execute(trx);
}
