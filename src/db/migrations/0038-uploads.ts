import type { Transaction } from '../open.ts';

/** What builds left and their runners still have to bring. */
export async function uploads(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('builds')
    .addColumn('uploads', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema
    .createTable('uploads')
    .addColumn('id', 'bigint', (column) => column.primaryKey().references('builds.id').onDelete('cascade'))
    .addColumn('claim', 'text', (column) => column.notNull().unique())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('account_id', 'bigint', (column) => column.notNull())
    .addColumn('stored_blob', 'text')
    .addColumn('stored_bytes', 'bigint')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
}
