import type { Transaction } from '../open.ts';

/** The images that suites run in and dependencies are compiled in, and the credentials of an account for registries. */
export async function images(trx: Transaction): Promise<void> {
  for (const table of ['suites', 'dependencies'])
    await trx.schema
      .alterTable(table)
      .addColumn('image', 'text', (column) => column.notNull().defaultTo(''))
      .execute();
  await trx.schema
    .createTable('registries')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('owner_id', 'bigint', (column) => column.notNull().references('users.id').onDelete('cascade'))
    .addColumn('host', 'text', (column) => column.notNull())
    .addColumn('username', 'text', (column) => column.notNull())
    .addColumn('password', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('registries_of_owner').on('registries').columns(['owner_id', 'host']).unique().execute();
}
