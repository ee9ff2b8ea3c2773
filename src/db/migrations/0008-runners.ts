import { sql } from 'kysely';
import type { Transaction } from '../open.ts';

/**
 * Runners that can be revoked and bound to accounts; the blobs of a claim; how many jobs each account has under way.
 */
export async function runners(trx: Transaction): Promise<void> {
  for (const column of ['last_seen_at', 'revoked_at'])
    await trx.schema.alterTable('runners').addColumn(column, 'bigint').execute();
  await trx.schema
    .createTable('runner_accounts')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('runner_id', 'bigint', (column) => column.notNull().references('runners.id').onDelete('cascade'))
    .addColumn('account_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addUniqueConstraint('runner_accounts_once', ['runner_id', 'account_id'])
    .execute();
  await trx.schema.createIndex('runner_accounts_of_account').on('runner_accounts').column('account_id').execute();

  for (const column of ['named_blobs', 'stored_blob'])
    await trx.schema.alterTable('jobs').addColumn(column, 'text').execute();
  await trx.schema
    .createIndex('jobs_under_way')
    .on('jobs')
    .column('account_id')
    .where(sql.ref('claim'), 'is not', null)
    .execute();
  // A runner that works during the upgrade keeps its claims: from now on holders are identified by number.
  await sql`
    update jobs set holder = (
      select 'runner ' || runners.name || ' ' || runners.id from runners where jobs.holder = 'runner ' || runners.name
    ) where exists (select 1 from runners where jobs.holder = 'runner ' || runners.name)
  `.execute(trx);
}
