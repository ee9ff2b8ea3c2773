import type { Transaction } from '../open.ts';

/** The trace of a build request, where traces are made. */
export async function traces(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('build_requests')
    .addColumn('trace', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
}
