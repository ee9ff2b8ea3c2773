import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * How many places for builds each runner has; 0 where it has not said. And a claim is for a build or for a fetch: it
 * must not read all the others that wait.
 */
export async function places(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('runner_visits')
    .addColumn('places', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await trx.schema.dropIndex('jobs_waiting').execute();
  const waiting = (name: string) =>
    trx.schema.createIndex(name).on('jobs').columns(['tags', 'account_id', 'run_after', 'id']);
  await waiting('jobs_waiting')
    .where(sql<boolean>`claim is null and kind not in ('fetch_commit', 'check_connection')`)
    .execute();
  await waiting('jobs_waiting_fetches')
    .where(sql<boolean>`claim is null and kind in ('fetch_commit', 'check_connection')`)
    .execute();
}
