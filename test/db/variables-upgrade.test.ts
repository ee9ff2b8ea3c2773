import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate, migrateWithin } from '../../src/db/migrate.ts';
import type { Transaction } from '../../src/db/open.ts';
import { onEveryDatabase } from '../support/databases.ts';

describe('an upgrade', () => {
  onEveryDatabase((database) => {
    test('leaves every variable as secret as it was', async () => {
      const db = await database.openEmpty();
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0012');
        const put = (table: Parameters<Transaction['insertInto']>[0], row: Record<string, unknown>) =>
          trx.insertInto(table).values(row).execute();
        const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, '']));
        await put('users', {
          id: 1n,
          email: 'a@example.org',
          kind: 'user',
          billing: 'ok',
          suspended: 0,
          created_at: 0n,
        });
        const project = texts('name', 'description', 'repository_url', 'build_state');
        const keys = texts('ssh_public_key', 'ssh_private_key');
        await put('projects', { id: 1n, owner_id: 1n, created_at: 0n, ...project, ...keys });
        await put('suites', { id: 1n, project_id: 1n, ...texts('name', 'description', 'command') });
        await put('environment_variables', { id: 1n, suite_id: 1n, name: 'TOKEN', content: 'sealed' });
      });
      await migrate(db);
      const variables = await db.read.selectFrom('environment_variables').selectAll().execute();
      assert.deepEqual(
        variables.map(({ name, content, secret }) => [name, content, secret]),
        [['TOKEN', 'sealed', 1]],
      );
    });
  });
});
