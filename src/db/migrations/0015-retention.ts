import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * When a log was completed, for those who keep logs for a while only. The logs that are there count from when their
 * record was made; those of dependencies, which are begun anew with every compile, from now on. And the blobs of what
 * was deleted, until they are gone too.
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
