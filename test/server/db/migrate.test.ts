import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate } from '../../../src/server/db/migrate.ts';
import { migrations } from '../../../src/server/db/migrations/index.ts';
import { shapeOf } from '../../support/database-shape.ts';
import { onEveryDatabase, placeFor, whyNoPostgres } from '../../support/databases.ts';
import { headrace } from '../../support/program.ts';

const all = migrations.map(({ name }) => name);

describe('migrations', () => {
  const shapes: string[][] = [];
  onEveryDatabase((database) => {
    test('are applied once', async () => {
      const db = await database.openEmpty();
      assert.deepEqual(await migrate(db), all);
      assert.deepEqual(await migrate(db), []);
    });

    test('are applied once by programs that start together', async () => {
      const { folder, env } = await placeFor(database);
      const start = () => headrace(['migrate', '--data-dir', folder], env);
      const finished = await Promise.all(Array.from({ length: 4 }, start));
      const said = finished.map(({ stdout, stderr }) => `${stdout.toString()}${stderr.toString()}`.trim());
      const nothing = 'nothing to apply';
      assert.deepEqual(said.toSorted(), [`applied ${all.join(', ')}`, nothing, nothing, nothing]);
    });

    test('make tables', async () => {
      shapes.push(await shapeOf(await database.open()));
    });

    test('do not touch a database that a newer program has changed', async () => {
      const db = await database.open();
      const newer = { name: '9999-from-the-future', applied_at: 0n };
      await db.transaction((trx) => trx.insertInto('applied_migrations').values(newer).execute());
      await assert.rejects(migrate(db), /newer than this program.*9999-from-the-future/);
    });
  });

  test('make the same tables and indexes on both databases', { skip: whyNoPostgres() }, () => {
    const [inSqlite, inPostgres] = shapes;
    assert.deepEqual(inSqlite, inPostgres);
    assert.ok(inSqlite?.includes('log_chunks.bytes bytes') && inSqlite.includes('index jobs_waiting'));
  });
});
