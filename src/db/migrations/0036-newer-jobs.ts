import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** Which accounts have waiting jobs that only newer runners get; empty where all runners are of today. */
export async function newerJobs(trx: Transaction): Promise<void> {
  await trx.schema
    .createIndex('jobs_for_newer')
    .on('jobs')
    .column('account_id')
    .where(sql<boolean>`claim is null and kind in ('run_newer_suite', 'compile_newer_dependency')`)
    .execute();
}
