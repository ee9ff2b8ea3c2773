import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Database } from '../../../src/server/db/open.ts';
import { onEveryDatabase } from '../../support/databases.ts';

describe('transactions', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });

    const add = (name: string, failing = false): Promise<void> =>
      db.transaction(async (trx) => {
        await trx.insertInto('applied_migrations').values({ name, applied_at: 1n }).execute();
        if (failing) throw new Error(`${name} fails`);
      });
    const names = async (prefix: string): Promise<string[]> => {
      const query = db.read.selectFrom('applied_migrations').select('name').where('name', 'like', `${prefix}%`);
      return (await query.orderBy('name').execute()).map(({ name }) => name);
    };

    test('that arrive together succeed and fail each on its own', async () => {
      const numbers = Array.from({ length: 400 }, (_, number) => number);
      const name = (number: number): string => `many-${String(number).padStart(3, '0')}`;
      const results = await Promise.allSettled(numbers.map((number) => add(name(number), number % 7 === 3)));
      const failed = results.flatMap(({ status }, number) => (status === 'rejected' ? [number] : []));
      assert.deepEqual(
        failed,
        numbers.filter((number) => number % 7 === 3),
      );
      assert.deepEqual(await names('many-'), numbers.filter((number) => number % 7 !== 3).map(name));
    });

    test('that the database itself refuses harm no others', async () => {
      await add('twin');
      const results = await Promise.allSettled([add('sane-1'), add('twin'), add('sane-2'), add('twin'), add('sane-3')]);
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
      );
      assert.deepEqual(await names('sane-'), ['sane-1', 'sane-2', 'sane-3']);
    });

    test('are seen by readers when they are done and not before', async () => {
      await db.transaction(async (trx) => {
        await trx.insertInto('applied_migrations').values({ name: 'unseen', applied_at: 1n }).execute();
        assert.deepEqual(await names('unseen'), []);
        const own = trx.selectFrom('applied_migrations').select('name').where('name', '=', 'unseen');
        assert.equal((await own.execute()).length, 1);
      });
      assert.deepEqual(await names('unseen'), ['unseen']);
    });

    test('tell of their commit or of their failure, and only of that', async () => {
      const told: string[] = [];
      const noting = (name: string, failing: boolean): Promise<void> =>
        db.transaction(async (trx) => {
          db.afterCommit(trx, () => void told.push(`${name} committed`));
          db.afterFailure(trx, () => void told.push(`${name} failed`));
          db.atEnd(trx, async () => void told.push(`${name} ends`));
          if (failing) throw new Error('on its own');
        });
      await noting('one', false);
      await assert.rejects(noting('two', true), /on its own/);
      assert.deepEqual(told, ['one ends', 'one committed', 'two failed']);
    });

    test('take no query any more when they are over', async () => {
      const late = Promise.withResolvers<void>();
      let query: Promise<unknown> | undefined;
      const failing = db.transaction(async (trx) => {
        query = late.promise.then(() =>
          trx.insertInto('applied_migrations').values({ name: 'late', applied_at: 1n }).execute(),
        );
        throw new Error('on its own');
      });
      await assert.rejects(failing, /on its own/);
      late.resolve();
      await assert.rejects(async () => query);
      assert.deepEqual(await names('late'), []);
    });

    test('that go on in spite of a failed query are told that nothing was kept', async () => {
      await add('spite');
      const going = db.transaction(async (trx) => {
        const again = { name: 'spite', applied_at: 1n };
        await trx.insertInto('applied_migrations').values({ name: 'spite-2', applied_at: 1n }).execute();
        await trx
          .insertInto('applied_migrations')
          .values(again)
          .execute()
          .catch(() => {});
      });
      // SQLite undoes the one statement that failed, PostgreSQL the whole transaction.
      if (database.kind === 'postgres') await assert.rejects(going, /the transaction had failed/);
      else await going;
      assert.deepEqual(await names('spite-'), database.kind === 'postgres' ? [] : ['spite-2']);
    });

    test('give 64-bit columns as bigint and others as numbers', async () => {
      const row = { node: 7, holder: 'x', leased_until: 2n ** 63n - 1n, used_until: 5n };
      await db.transaction((trx) => trx.insertInto('id_nodes').values(row).execute());
      assert.deepEqual({ ...(await db.read.selectFrom('id_nodes').selectAll().executeTakeFirst()) }, row);
    });
  });
});
