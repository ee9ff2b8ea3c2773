import type { Transaction } from '../open.ts';

/** Hooks that forges call after a push, and the outcome of each call. */
export async function hooks(trx: Transaction): Promise<void> {
  await trx.schema
    .createTable('hooks')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('provider', 'text', (column) => column.notNull())
    .addColumn('events', 'text', (column) => column.notNull())
    .addColumn('secret', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('hooks_of_project').on('hooks').columns(['project_id', 'id']).execute();
  await trx.schema
    .createTable('hook_deliveries')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('hook_id', 'bigint', (column) => column.notNull().references('hooks.id').onDelete('cascade'))
    .addColumn('delivery_key', 'text')
    .addColumn('received_at', 'bigint', (column) => column.notNull())
    .addColumn('facts', 'text', (column) => column.notNull())
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('build_request_id', 'bigint')
    .addColumn('results', 'text', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('hook_deliveries_of_hook').on('hook_deliveries').columns(['hook_id', 'id']).execute();
  // Detects a delivery that arrives twice at once. Deliveries without a key all count as different.
  await trx.schema
    .createIndex('hook_deliveries_once')
    .on('hook_deliveries')
    .columns(['hook_id', 'delivery_key'])
    .unique()
    .execute();
}
