import type { Transaction } from '../open.ts';

/**
 * How long a suite may take, whether it may fail, how often it is tried again by itself, and its matrix. Attempts of the
 * same suite are told apart by their variant, so the index of attempts has it too.
 */
export async function suiteFields(trx: Transaction): Promise<void> {
  const number = async (table: string, column: string) =>
    trx.schema
      .alterTable(table)
      .addColumn(column, 'integer', (made) => made.notNull().defaultTo(0))
      .execute();
  const text = async (table: string, column: string, initial: string) =>
    trx.schema
      .alterTable(table)
      .addColumn(column, 'text', (made) => made.notNull().defaultTo(initial))
      .execute();
  await number('suites', 'timeout');
  await number('suites', 'allow_failure');
  await number('suites', 'retries');
  await text('suites', 'matrix', '[]');
  await text('builds', 'variant', '');
  await number('builds', 'allow_failure');
  await number('builds', 'retry');
  await number('builds', 'retries_left');
  await trx.schema
    .alterTable('builds')
    .addColumn('series', 'bigint', (made) => made.notNull().defaultTo(0))
    .execute();
  await text('build_requests', 'suites', '[]');
  await trx.schema.dropIndex('builds_attempt').execute();
  await trx.schema
    .createIndex('builds_attempt')
    .unique()
    .on('builds')
    .columns(['commit_id', 'suite_id', 'variant', 'attempt'])
    .execute();
}
