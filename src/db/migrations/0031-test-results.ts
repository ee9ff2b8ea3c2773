import { sql } from 'kysely';
import type { ColumnTypes } from '../migrate.ts';
import type { Transaction } from '../open.ts';

/** The reports of suites, and the tests that builds found in them. */
export async function testResults(trx: Transaction, types: ColumnTypes): Promise<void> {
  await trx.schema
    .alterTable('suites')
    .addColumn('reports', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute();
  for (const count of ['tests_passed', 'tests_failed', 'tests_skipped']) {
    await trx.schema
      .alterTable('builds')
      .addColumn(count, 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
  }
  const bytes = sql.raw<'bytea'>(types.bytes);
  await trx.schema
    .createTable('test_runs')
    .addColumn('build_id', 'bigint', (column) => column.primaryKey().references('builds.id').onDelete('cascade'))
    .addColumn('project_id', 'bigint', (column) => column.notNull())
    .addColumn('suite_id', 'bigint', (column) => column.notNull())
    .addColumn('commit_id', 'bigint', (column) => column.notNull())
    .addColumn('size', 'integer', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('passed', 'integer', (column) => column.notNull())
    .addColumn('failed', 'integer', (column) => column.notNull())
    .addColumn('skipped', 'integer', (column) => column.notNull())
    .addColumn('slowest', 'text', (column) => column.notNull())
    .addColumn('completed_at', 'bigint')
    .execute();
  await trx.schema.createIndex('test_runs_of_project').on('test_runs').columns(['project_id', 'build_id']).execute();
  await trx.schema
    .createIndex('test_runs_of_commit')
    .on('test_runs')
    .columns(['commit_id', 'suite_id', 'build_id'])
    .execute();
  // Tests of which the last never came. They are few, and are removed when their build is over.
  await trx.schema
    .createIndex('test_runs_unfinished')
    .on('test_runs')
    .column('build_id')
    .where(sql.ref('completed_at'), 'is', null)
    .execute();
  await trx.schema
    .createTable('test_results')
    .addColumn('build_id', 'bigint', (column) => column.notNull().references('test_runs.build_id').onDelete('cascade'))
    .addColumn('start', 'integer', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('count', 'integer', (column) => column.notNull())
    .addColumn('keys', bytes, (column) => column.notNull())
    .addColumn('content', bytes, (column) => column.notNull())
    .addPrimaryKeyConstraint('test_results_place', ['build_id', 'start', 'state'])
    .execute();
  await trx.schema
    .createTable('test_flakes')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('suite_id', 'bigint', (column) => column.notNull())
    .addColumn('commit_id', 'bigint', (column) => column.notNull())
    .addColumn('variant', 'text', (column) => column.notNull())
    .addColumn('test_key', 'bigint', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('class', 'text', (column) => column.notNull())
    .addColumn('suite', 'text', (column) => column.notNull())
    .addColumn('failures', 'integer', (column) => column.notNull())
    .addColumn('passes', 'integer', (column) => column.notNull())
    .addColumn('message', 'text', (column) => column.notNull())
    .addColumn('failed_build_id', 'bigint', (column) => column.notNull())
    .addColumn('began_at', 'bigint', (column) => column.notNull())
    .addColumn('last_seen_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('test_flakes_place', ['commit_id', 'suite_id', 'variant', 'test_key'])
    .execute();
  await trx.schema
    .createIndex('test_flakes_of_project')
    .on('test_flakes')
    .columns(['project_id', 'last_seen_at'])
    .execute();
}
