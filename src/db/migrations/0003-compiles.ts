import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * For compiling: the blobs of archives and results, the events of dependencies, and indexes that find the references to
 * a blob.
 */
export async function compiles(trx: Transaction): Promise<void> {
  const dependencies = () => trx.schema.alterTable('dependencies');
  await dependencies().addColumn('archive', 'text').execute();
  await dependencies().addColumn('archive_kind', 'text').execute();
  await dependencies().addColumn('result', 'text').execute();
  await dependencies()
    .addColumn('result_prefix', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await dependencies()
    .addColumn('compile_prefix', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await dependencies()
    .addColumn('shared', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await dependencies()
    .addColumn('last_event', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();

  // A dependency that is compiled again stays shared, although its state says otherwise for a while.
  await trx.updateTable('dependencies').set({ shared: 1 }).where('state', '=', 'shared').execute();
  await trx.schema.dropIndex('dependencies_shared').execute();
  await trx.schema
    .createIndex('dependencies_shared')
    .on('dependencies')
    .column('id')
    .where(sql.ref('shared'), '=', sql.lit(1))
    .execute();

  await trx.schema
    .createTable('dependency_events')
    .addColumn('dependency_id', 'bigint', (column) =>
      column.notNull().references('dependencies.id').onDelete('cascade'),
    )
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('dependency_events_sequence', ['dependency_id', 'sequence'])
    .execute();

  await trx.schema.createIndex('dependencies_by_archive').on('dependencies').column('archive').execute();
  await trx.schema.createIndex('dependencies_by_result').on('dependencies').column('result').execute();
  await trx.schema.createIndex('logs_by_blob').on('logs').column('blob').execute();
}
