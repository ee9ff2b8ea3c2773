import type { Transaction } from '../open.ts';

/** Variables that are not secret are not masked. All existing variables were masked, and stay secret. */
export async function plainVariables(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('environment_variables')
    .addColumn('secret', 'integer', (column) => column.notNull().defaultTo(1))
    .execute();
}
