import { sql } from 'kysely';
import type { ColumnTypes } from '../migrate.ts';
import type { Transaction } from '../open.ts';

/**
 * Where the lines of logs begin and when they were written. For existing logs this is computed on request
 * (streams/line-index.ts), which is cheaper than reading all of them now.
 */
export async function logLines(trx: Transaction, types: ColumnTypes): Promise<void> {
  const logs = trx.schema.alterTable('logs');
  await logs.addColumn('line_breaks', 'bigint').execute();
  await logs.addColumn('line_state', 'text').execute();
  await logs.addColumn('began_at', 'bigint').execute();
  await logs.addColumn('said_at', 'bigint').execute();
  await trx.schema
    .createTable('log_marks')
    .addColumn('log_id', 'bigint', (column) => column.notNull().references('logs.id').onDelete('cascade'))
    .addColumn('line_breaks', 'bigint', (column) => column.notNull())
    .addColumn('start', 'bigint', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('line_state', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('log_marks_place', ['log_id', 'line_breaks', 'start'])
    .execute();
  await trx.schema
    .createTable('log_indexes')
    .addColumn('log_id', 'bigint', (column) => column.primaryKey().references('logs.id').onDelete('cascade'))
    .addColumn('bytes', sql.raw<'bytea'>(types.bytes), (column) => column.notNull())
    .execute();
}
