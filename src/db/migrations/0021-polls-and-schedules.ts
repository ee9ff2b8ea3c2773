import { sql } from 'kysely';
import type { Transaction } from '../open.ts';
import type { ColumnTypes } from '../migrate.ts';

/** When repositories are polled, the refs seen there, and scheduled builds. */
export async function pollsAndSchedules(trx: Transaction, types: ColumnTypes): Promise<void> {
  await trx.schema
    .createTable('polls')
    .addColumn('project_id', 'bigint', (column) => column.primaryKey().references('projects.id').onDelete('cascade'))
    .addColumn('account_id', 'bigint', (column) => column.notNull())
    .addColumn('host', 'text', (column) => column.notNull())
    .addColumn('next_look_at', 'bigint', (column) => column.notNull())
    .addColumn('wait_ms', 'bigint', (column) => column.notNull())
    .addColumn('claim', 'text')
    .addColumn('holder', 'text')
    .addColumn('last_looked_at', 'bigint')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('failures', 'integer', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('polls_by_next_look').on('polls').column('next_look_at').execute();
  await trx.schema
    .createIndex('polls_under_way')
    .on('polls')
    .column('holder')
    .where(sql<boolean>`holder is not null`)
    .execute();
  // A separate table: the refs are large and written only when they change, the rest at every poll.
  await trx.schema
    .createTable('polled_refs')
    .addColumn('project_id', 'bigint', (column) => column.primaryKey().references('projects.id').onDelete('cascade'))
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('refs', sql.raw<'bytea'>(types.bytes), (column) => column.notNull())
    .execute();
  await trx.schema
    .createTable('schedules')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('cron', 'text', (column) => column.notNull())
    .addColumn('time_zone', 'text', (column) => column.notNull())
    .addColumn('commit_ref', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('next_run_at', 'bigint', (column) => column.notNull())
    .addColumn('last_run_at', 'bigint')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('build_request_id', 'bigint')
    .execute();
  await trx.schema.createIndex('schedules_of_project').on('schedules').columns(['project_id', 'id']).execute();
  await trx.schema.createIndex('schedules_by_next_run').on('schedules').column('next_run_at').execute();
}
