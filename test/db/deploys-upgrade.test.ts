import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate, migrateWithin } from '../../src/db/migrate.ts';
import type { Transaction } from '../../src/db/open.ts';
import { onEveryDatabase } from '../support/databases.ts';

/** As a program left them that accepted deploys and did nothing about them. */
async function addOldDeploys(trx: Transaction): Promise<void> {
  const put = (table: Parameters<Transaction['insertInto']>[0], row: Record<string, unknown>) =>
    trx.insertInto(table).values(row).execute();
  const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, '']));
  await put('users', { id: 1n, suspended: 0, created_at: 0n, ...texts('email', 'kind', 'billing') });
  const project = texts('name', 'description', 'repository_url', 'build_state', 'ssh_public_key', 'ssh_private_key');
  await put('projects', { id: 1n, owner_id: 1n, created_at: 0n, ...project });
  const people = [
    'author_name',
    'author_email',
    'authored_date',
    'committer_name',
    'committer_email',
    'committed_date',
  ];
  const scm = texts(...people.map((name) => `scm_${name}`));
  const commit = texts('ref', 'build_state', 'message', 'branches', 'tags', 'files');
  await put('commits', { id: 1n, project_id: 1n, version: 1, ...commit, ...scm });
  const strategy = { repository_url: 'a@b:c.git', local_branch: 'main', remote_branch: 'live' };
  await put('deploy_strategies', { id: 1n, project_id: 1n, ...strategy, ...texts('name', 'strategy_type') });
  const deploy = { project_id: 1n, commit_id: 1n, state: 'enqueued', created_by: 1n };
  await put('deploys', { id: 1n, deploy_strategy_id: 1n, ...deploy });
  await put('deploys', { id: 2n, deploy_strategy_id: 9n, ...deploy });
}

describe('an upgrade', () => {
  onEveryDatabase((database) => {
    test('calls off the deploys that waited for a program that can push', async () => {
      const db = await database.openEmpty();
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0003');
        await addOldDeploys(trx);
      });
      await migrate(db);
      const deploys = await db.read.selectFrom('deploys').selectAll().orderBy('id').execute();
      assert.deepEqual(
        deploys.map(({ state, repository_url, local_branch, remote_branch }) => [
          state,
          repository_url,
          local_branch,
          remote_branch,
        ]),
        [
          ['cancelled', 'a@b:c.git', 'main', 'live'],
          ['cancelled', '', '', ''],
        ],
      );
      for (const { finished_at: at } of deploys) assert.ok(at !== null && at <= BigInt(Date.now()));
    });
  });
});
