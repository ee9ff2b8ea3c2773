import type { Transaction } from '../open.ts';

/** Source archives that arrive in several requests. */
export async function archiveUploads(trx: Transaction): Promise<void> {
  await trx.schema
    .createTable('archive_uploads')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('dependency_id', 'bigint', (column) =>
      column.notNull().unique().references('dependencies.id').onDelete('cascade'),
    )
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('received', 'bigint', (column) => column.notNull())
    .addColumn('complete', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema
    .createTable('archive_parts')
    .addColumn('upload_id', 'bigint', (column) => column.notNull().references('archive_uploads.id').onDelete('cascade'))
    .addColumn('position', 'bigint', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('archive_parts_key', ['upload_id', 'position'])
    .execute();
  await trx.schema.createIndex('archive_parts_by_digest').on('archive_parts').column('digest').execute();
}
