import type { Queries } from '../db/open.ts';
import { mostWaitingJobs } from '../../shared/domain/bounds.ts';

/**
 * The limit is not exact: one request makes a build for each suite, and requests at the same moment may all pass. The
 * index of an account's waiting jobs is short for accounts below the limit.
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
