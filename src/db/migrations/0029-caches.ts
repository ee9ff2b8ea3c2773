import type { Transaction } from '../open.ts';

/** What suites keep from build to build, and the default branch, whose caches serve the other branches too. */
export async function caches(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('suites')
    .addColumn('cache', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute();
  await trx.schema
    .alterTable('projects')
    .addColumn('default_branch', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema
    .createTable('caches')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('suite_id', 'bigint', (column) => column.notNull().references('suites.id').onDelete('cascade'))
    .addColumn('variant', 'text', (column) => column.notNull())
    .addColumn('branch', 'text', (column) => column.notNull())
    .addColumn('paths', 'text', (column) => column.notNull())
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema
    .createIndex('caches_of_suite')
    .on('caches')
    .columns(['suite_id', 'variant', 'branch'])
    .unique()
    .execute();
  await trx.schema.createIndex('caches_of_project').on('caches').columns(['project_id', 'id']).execute();
  await trx.schema
    .createTable('cache_layers')
    .addColumn('cache_id', 'bigint', (column) => column.notNull().references('caches.id').onDelete('cascade'))
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('build_id', 'bigint', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('cache_layers_key', ['cache_id', 'position'])
    .execute();
  await trx.schema.createIndex('cache_layers_by_build').on('cache_layers').column('build_id').execute();
  await trx.schema.createIndex('cache_layers_by_digest').on('cache_layers').column('digest').execute();
}
