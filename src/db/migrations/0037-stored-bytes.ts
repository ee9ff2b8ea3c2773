import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** What was stored under a claim is measured, refers to its blob, and is removed if nothing else does in the end. */
export async function storedBytes(trx: Transaction): Promise<void> {
  await trx.schema.alterTable('jobs').addColumn('stored_bytes', 'bigint').execute();
  await trx.schema
    .createIndex('jobs_stored_blob')
    .on('jobs')
    .column('stored_blob')
    .where(sql<boolean>`stored_blob is not null`)
    .execute();
  await trx.schema
    .alterTable('doomed_blobs')
    .addColumn('remove_after', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
}
