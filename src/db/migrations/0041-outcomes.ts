import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** Since when a project passes or fails, and the newest builds of a branch by an index. */
export async function outcomes(trx: Transaction): Promise<void> {
  for (const column of ['passed_since', 'failed_since'] as const)
    await trx.schema.alterTable('projects').addColumn(column, 'bigint').execute();
  // A pull request from a branch of the same name is none of the branch's builds.
  await trx.schema
    .createIndex('build_requests_of_branch')
    .on('build_requests')
    .columns(['project_id', 'branch', 'id'])
    .where(sql<boolean>`pull_request is null`)
    .execute();
}
