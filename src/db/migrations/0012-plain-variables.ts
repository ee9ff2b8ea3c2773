import type { Transaction } from '../open.ts';

/** Variables that are no secret are not masked. All that are there were masked so far, and stay secret. */
export async function plainVariables(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('environment_variables')
    .addColumn('secret', 'integer', (column) => column.notNull().defaultTo(1))
    .execute();
}
