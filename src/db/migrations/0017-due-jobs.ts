import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** A claim searches only jobs that are due, not those that are put off or stand in a lane. */
export async function dueJobs(trx: Transaction): Promise<void> {
  await trx.schema.dropIndex('jobs_waiting').execute();
  await trx.schema
    .createIndex('jobs_waiting')
    .on('jobs')
    .columns(['account_id', 'run_after', 'id'])
    .where(sql.ref('claim'), 'is', null)
    .execute();
}
