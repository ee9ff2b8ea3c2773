import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { migrate } from '../../../src/server/db/migrate.ts';
import { migrations } from '../../../src/server/db/migrations/index.ts';
import type { Database } from '../../../src/server/db/open.ts';
import { onEveryDatabase, placeFor, whyNoPostgres } from '../../support/databases.ts';
import { headrace } from '../../support/program.ts';

const all = migrations.map(({ name }) => name);

/** What a database has: the columns of its tables, and its indexes, in a form that both have. */
async function shapeOf({ kind, read }: Database): Promise<string[]> {
  const bytes = kind === 'sqlite' ? 'blob' : 'bytea';
  const types: Record<string, string> = { int4: 'integer', int8: 'bigint', [bytes]: 'bytes' };
  const columns = (await read.introspection.getTables()).flatMap((table) =>
    table.columns.map(({ name, dataType, isNullable }) => {
      const type = types[dataType.toLowerCase()] ?? dataType.toLowerCase();
      return `${table.name}.${name} ${type}${isNullable ? ' or null' : ''}`;
    }),
  );
  const inSqlite = sql<{ name: string }>`
    select name from sqlite_master where type = 'index' and sql is not null`;
  const inPostgres = sql<{ name: string }>`
    select indexname as name from pg_indexes where schemaname = current_schema()
    and indexname not in (select conname from pg_constraint)`;
  const indexes = await (kind === 'sqlite' ? inSqlite : inPostgres).execute(read);
  return [...columns, ...indexes.rows.map(({ name }) => `index ${name}`)].toSorted();
}

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
