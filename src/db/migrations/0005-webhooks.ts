import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** What sending needs: the order of a notification's deliveries, how long each is tried, and the errands in the queue. */
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
  // The head of the line is found at once, however long the line and whatever was sent before.
  await trx.schema
    .createIndex('deliveries_pending')
    .on('deliveries')
    .columns(['notification_id', 'position'])
    .where(sql.ref('state'), '=', sql.lit('pending'))
    .execute();

  // A subject has one errand at most; two who bring news at the same moment find the same one.
  await trx.schema
    .createIndex('jobs_errand')
    .unique()
    .on('jobs')
    .column('subject_id')
    .where(sql.ref('kind'), '=', sql.lit('deliver'))
    .execute();
  // What is put off costs nothing until it is due. SQLite would rather take an index of claims to find what has none,
  // and look through all of it; so that one is for what is claimed alone.
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
