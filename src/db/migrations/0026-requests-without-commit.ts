import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** The page of a project shows its requests that have no commit. They are few; without this, all requests were read. */
export async function requestsWithoutCommit(trx: Transaction): Promise<void> {
  await trx.schema
    .createIndex('build_requests_without_commit')
    .on('build_requests')
    .columns(['project_id', 'id'])
    .where(sql.ref('commit_id'), 'is', null)
    .execute();
}
