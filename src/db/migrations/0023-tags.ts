import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** The tags that suites and their jobs need, and that runners have. A claim searches the jobs with tags that fit. */
export async function tags(trx: Transaction): Promise<void> {
  for (const table of ['suites', 'jobs', 'runner_visits'])
    await trx.schema
      .alterTable(table)
      .addColumn('tags', 'text', (column) => column.notNull().defaultTo(''))
      .execute();
  await trx.schema.dropIndex('jobs_waiting').execute();
  await trx.schema
    .createIndex('jobs_waiting')
    .on('jobs')
    .columns(['tags', 'account_id', 'run_after', 'id'])
    .where(sql.ref('claim'), 'is', null)
    .execute();
  // Which tags the waiting jobs of an account need; empty where no suite has tags.
  await trx.schema
    .createIndex('jobs_tagged')
    .on('jobs')
    .columns(['account_id', 'tags'])
    .where(sql.ref('claim'), 'is', null)
    .where(sql.ref('tags'), '>', sql.lit(''))
    .execute();
}
