import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/** For deploys: the target of each, lanes that run one at a time, and indexes that list what can be deployed. */
export async function deploys(trx: Transaction): Promise<void> {
  for (const column of ['repository_url', 'local_branch', 'remote_branch'] as const) {
    await trx.schema
      .alterTable('deploys')
      .addColumn(column, 'text', (definition) => definition.notNull().defaultTo(''))
      .execute();
    await sql`
      update deploys set ${sql.ref(column)} = coalesce(
        (select ${sql.ref(`s.${column}`)} from deploy_strategies as s where s.id = deploys.deploy_strategy_id), '')
    `.execute(trx);
  }
  // These deploys were accepted before pushing existed. Their callers do not expect a push because of an upgrade.
  await trx
    .updateTable('deploys')
    .set({ state: 'cancelled', finished_at: BigInt(Date.now()) })
    .where('state', '=', 'enqueued')
    .execute();

  // Checking whether a job of a lane is claimed must not cost more when thousands wait in it.
  await trx.schema
    .createIndex('jobs_claimed_of_lane')
    .on('jobs')
    .column('lane')
    .where(sql<boolean>`claim is not null and lane is not null`)
    .execute();

  await trx.schema
    .createIndex('commits_passed')
    .on('commits')
    .columns(['project_id', 'id'])
    .where(sql.ref('build_state'), '=', 'passed')
    .execute();
  await trx.schema
    .createIndex('build_requests_unfinished')
    .on('build_requests')
    .column('project_id')
    .where(sql<boolean>`build_state in ('enqueued', 'fetching', 'building')`)
    .execute();
}
