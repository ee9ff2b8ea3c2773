import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate } from '../../src/db/migrate.ts';
import { migrations } from '../../src/db/migrations/index.ts';
import { onEveryDatabase } from '../support/databases.ts';

const all = migrations.map(({ name }) => name);

describe('migrations', () => {
  onEveryDatabase((database) => {
    test('are applied once', async () => {
      const db = await database.openEmpty();
      assert.deepEqual(await migrate(db), all);
      assert.deepEqual(await migrate(db), []);
    });

    test('are applied once by servers that start together', async () => {
      const url = await database.emptyUrl();
      const servers = await Promise.all(Array.from({ length: 4 }, () => database.openEmpty(url)));
      const applied = await Promise.all(servers.map(migrate));
      assert.deepEqual(applied.flat(), all);
      const rows = await servers[0]?.read.selectFrom('applied_migrations').select('name').execute();
      assert.deepEqual(
        rows?.map(({ name }) => name),
        all,
      );
    });

    test('do not touch a database that a newer program has changed', async () => {
      const db = await database.open();
      const newer = { name: '9999-from-the-future', applied_at: 0n };
      await db.transaction((trx) => trx.insertInto('applied_migrations').values(newer).execute());
      await assert.rejects(migrate(db), /newer than this program.*9999-from-the-future/);
    });
  });
});
