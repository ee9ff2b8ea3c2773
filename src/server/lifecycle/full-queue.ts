import type { Queries } from '../db/open.ts';
import { mostWaitingJobs } from '../../shared/domain/bounds.ts';

/**
 * Whether the account that owns a project has as many waiting jobs as it may. Requests at the same moment may all pass:
 * one request brings as many builds as its project has suites, so the bound is not exact in any case.
 *
 * The query follows the index of an account's waiting jobs, which is short for every account that is not at its bound.
 */
export async function isQueueFull(db: Queries, project: bigint): Promise<boolean> {
  const last = db
    .selectFrom('jobs')
    .select('tags')
    .where('account_id', '=', (of) => of.selectFrom('projects').select('owner_id').where('id', '=', project))
    .where('claim', 'is', null)
    .orderBy('tags')
    .limit(1)
    .offset(mostWaitingJobs - 1);
  return (await last.executeTakeFirst()) !== undefined;
}
