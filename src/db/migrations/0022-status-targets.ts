import type { Transaction } from '../open.ts';

/**
 * A status target is a notification whose receiver is a forge, for one repository there. And badges are public, so the
 * state of a branch must be found quickly.
 */
export async function statusTargets(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('notifications')
    .addColumn('repository', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema.createIndex('commits_of_branch').on('commits').columns(['project_id', 'branch', 'id']).execute();
}
