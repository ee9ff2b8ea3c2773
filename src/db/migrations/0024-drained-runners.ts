import type { Transaction } from '../open.ts';

/** A runner that is drained gets no more work. */
export async function drainedRunners(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('runners')
    .addColumn('draining', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
}
