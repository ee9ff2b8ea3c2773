import type { Transaction } from '../open.ts';

/** The files of failed builds that runners keep, and the shells in them. */
export async function shells(trx: Transaction): Promise<void> {
  await trx.schema
    .createTable('kept_builds')
    .addColumn('id', 'bigint', (column) => column.primaryKey().references('builds.id').onDelete('cascade'))
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('keeper', 'text', (column) => column.notNull())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('kept_builds_of_project').on('kept_builds').column('project_id').execute();
  await trx.schema.createIndex('kept_builds_by_end').on('kept_builds').column('expires_at').execute();
  await trx.schema
    .createTable('shells')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('build_id', 'bigint', (column) => column.notNull().references('kept_builds.id').onDelete('cascade'))
    .addColumn('account_id', 'bigint', (column) => column.notNull().references('users.id').onDelete('cascade'))
    .addColumn('via', 'text', (column) => column.notNull())
    .addColumn('keeper', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addColumn('client_seen_at', 'bigint', (column) => column.notNull())
    .addColumn('runner_seen_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('shells_of_keeper').on('shells').columns(['keeper', 'state']).execute();
  await trx.schema.createIndex('shells_of_build').on('shells').column('build_id').execute();
  await trx.schema.createIndex('shells_of_project').on('shells').column('project_id').execute();
  await trx.schema.createIndex('shells_of_account').on('shells').column('account_id').execute();
}
