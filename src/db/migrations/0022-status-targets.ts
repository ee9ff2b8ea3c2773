import type { Transaction } from '../open.ts';

/** A status target is a notification whose receiver is a forge: it is told of one repository there. */
export async function statusTargets(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('notifications')
    .addColumn('repository', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
}
