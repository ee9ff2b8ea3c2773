import type { Transaction } from '../open.ts';

/** The files that builds leave, and which ones a suite wants to keep. */
export async function artifacts(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('suites')
    .addColumn('artifacts', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute();
  await trx.schema
    .createTable('artifacts')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('build_id', 'bigint', (column) => column.notNull().references('builds.id').onDelete('cascade'))
    .addColumn('path', 'text', (column) => column.notNull())
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('sha256', 'text', (column) => column.notNull())
    .addColumn('crc32', 'bigint', (column) => column.notNull())
    .addColumn('content_type', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('artifacts_path', ['build_id', 'path'])
    .execute();
  // The pages of a build's list; and whether a blob is still needed.
  await trx.schema.createIndex('artifacts_of_build').on('artifacts').columns(['build_id', 'id']).execute();
  await trx.schema.createIndex('artifacts_of_blob').on('artifacts').column('sha256').execute();
}
