import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * When a log was completed, for installations that keep logs for a limited time. Existing logs count from the creation
 * of their record; those of dependencies, which begin again with every compile, from now on. And the blobs of deleted
 * records, until they are removed too.
 */
export async function retention(trx: Transaction): Promise<void> {
  await trx.schema.alterTable('logs').addColumn('completed_at', 'bigint').execute();
  const madeAt = sql`(id >> 22) + 1577836800000`;
  await sql`
    update logs set completed_at = case when project_id is null then ${sql.lit(Date.now())} else ${madeAt} end
    where complete = 1`.execute(trx);
  await trx.schema
    .createTable('doomed_blobs')
    .addColumn('digest', 'text', (column) => column.primaryKey())
    .execute();
}
