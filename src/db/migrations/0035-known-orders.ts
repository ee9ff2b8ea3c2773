import type { Transaction } from '../open.ts';

/** How much of an order each runner knows: work that an older one would do wrongly waits for another. */
export async function knownOrders(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('runner_visits')
    .addColumn('orders', 'integer', (column) => column.notNull().defaultTo(1))
    .execute();
}
