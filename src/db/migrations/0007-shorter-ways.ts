import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** Indexes for the queries of every step of a build. */
export async function shorterWays(trx: Transaction): Promise<void> {
  await trx.schema
    .createIndex('builds_attempt')
    .unique()
    .on('builds')
    .columns(['commit_id', 'suite_id', 'attempt'])
    .execute();
  await trx.schema
    .createIndex('jobs_of_holder')
    .on('jobs')
    .column('holder')
    .where(sql.ref('claim'), 'is not', null)
    .execute();
}
