import { sql } from 'kysely';
import { prepared } from '../db/prepared.ts';
import type { Queries } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { mostWaitingJobs } from '../lib/bounds.ts';

/** Follows the index of an account's waiting jobs, which is short for everybody but those who are refused. */
const findLastPlace = prepared<{ project: bigint }, Pick<JobRow, 'tags'>>((db, value) =>
  db
    .selectFrom('jobs')
    .select('tags')
    .where('account_id', '=', (of) => of.selectFrom('projects').select('owner_id').where('id', '=', value('project')))
    .where('claim', 'is', null)
    .orderBy('tags')
    .limit(sql.lit(1))
    .offset(sql.lit(mostWaitingJobs - 1)),
);

/**
 * Whether as many jobs of the account that owns a project wait as may. Those who ask at the same moment may all be let
 * in: one request brings as many builds as its project has suites, so the bound is not exact in any case.
 */
export async function isQueueFull(db: Queries, project: bigint): Promise<boolean> {
  return (await findLastPlace(db, { project })).length > 0;
}
