import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** Whoever claims a job looks at those that are due, and not at those that wait for a moment or stand in line. */
export async function dueJobs(trx: Transaction): Promise<void> {
  await trx.schema.dropIndex('jobs_waiting').execute();
  await trx.schema
    .createIndex('jobs_waiting')
    .on('jobs')
    .columns(['account_id', 'run_after', 'id'])
    .where(sql.ref('claim'), 'is', null)
    .execute();
}
