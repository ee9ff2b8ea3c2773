import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** What triggered a build request that was not made by a person, and a project's policies for such requests. */
export async function triggeredRequests(trx: Transaction): Promise<void> {
  const requests = () => trx.schema.alterTable('build_requests');
  await requests()
    .addColumn('trigger', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await requests()
    .addColumn('event', 'text', (column) => column.notNull().defaultTo('manual'))
    .execute();
  await requests().addColumn('pull_request', 'bigint').execute();
  await requests()
    .addColumn('target_branch', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await requests()
    .addColumn('from_fork', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await requests()
    .addColumn('sender', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await requests()
    .addColumn('fetch_ref', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await requests()
    .addColumn('concurrency_group', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  // Few requests are under way at a time, so the index stays small.
  await trx.schema
    .createIndex('build_requests_under_way')
    .on('build_requests')
    .columns(['project_id', 'concurrency_group', 'id'])
    .where(sql<boolean>`build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building')`)
    .execute();
  const projects = () => trx.schema.alterTable('projects');
  await projects()
    .addColumn('poll_interval', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await projects()
    .addColumn('fork_builds', 'text', (column) => column.notNull().defaultTo('without_secrets'))
    .execute();
  await projects()
    .addColumn('cancel_superseded', 'text', (column) => column.notNull().defaultTo('none'))
    .execute();
  await projects()
    .addColumn('public_badge', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
}
