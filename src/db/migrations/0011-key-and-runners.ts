import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * The canary that identifies the right master key; and the runners that are present, also those on the servers' own
 * machines.
 */
export async function keyAndRunners(trx: Transaction): Promise<void> {
  await trx.schema
    .createTable('master_key_canary')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('sealed', 'text', (column) => column.notNull())
    .execute();
  await trx.schema
    .createTable('runner_visits')
    .addColumn('holder', 'text', (column) => column.primaryKey())
    .addColumn('runner_id', 'bigint', (column) => column.unique().references('runners.id').onDelete('cascade'))
    .addColumn('seen_at', 'bigint', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('trouble', 'text', (column) => column.notNull())
    .execute();
  await sql`
    insert into runner_visits (holder, runner_id, seen_at, version, trouble)
    select 'runner ' || name || ' ' || id, id, last_seen_at, '', '' from runners where last_seen_at is not null
  `.execute(trx);
  await trx.schema.alterTable('runners').dropColumn('last_seen_at').execute();
}
