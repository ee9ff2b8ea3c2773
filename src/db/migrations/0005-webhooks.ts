import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * For sending: the order of a notification's deliveries, how long each is tried, and the delivery jobs in the queue.
 */
export async function webhooks(trx: Transaction): Promise<void> {
  const whole = (table: string, column: string) =>
    trx.schema
      .alterTable(table)
      .addColumn(column, 'bigint', (added) => added.notNull().defaultTo(0))
      .execute();
  await whole('notifications', 'last_position');
  await whole('deliveries', 'position');
  await whole('deliveries', 'since');
  await trx.schema
    .alterTable('delivery_attempts')
    .addColumn('error', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  // Finds the head of the line at once, however long the line is and however much was sent before.
  await trx.schema
    .createIndex('deliveries_pending')
    .on('deliveries')
    .columns(['notification_id', 'position'])
    .where(sql.ref('state'), '=', sql.lit('pending'))
    .execute();

  // A subject has at most one delivery job; two concurrent transactions find the same one.
  await trx.schema
    .createIndex('jobs_errand')
    .unique()
    .on('jobs')
    .column('subject_id')
    .where(sql.ref('kind'), '=', sql.lit('deliver'))
    .execute();
  // Jobs that are put off cost nothing until they are due. To find unclaimed jobs, SQLite would prefer an index of
  // claims and read all of it, so that index covers only claimed jobs.
  await trx.schema.dropIndex('jobs_claim').ifExists().execute();
  await trx.schema
    .createIndex('jobs_by_claim')
    .unique()
    .on('jobs')
    .column('claim')
    .where(sql.ref('claim'), 'is not', null)
    .execute();
  await trx.schema
    .createIndex('jobs_due')
    .on('jobs')
    .columns(['kind', 'run_after', 'account_id'])
    .where(sql.ref('claim'), 'is', null)
    .execute();
}
