import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Database } from '../../src/db/open.ts';
import { onEveryDatabase } from '../support/databases.ts';

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

    test('are run again without what was added to them, where they fail with it', async () => {
      const told: string[] = [];
      const note = (word: string) => () => void told.push(word);
      await db.transaction(async (trx) => {
        const insert = async (name: string): Promise<void> => {
          await trx.insertInto('applied_migrations').values({ name, applied_at: 1n }).execute();
        };
        await insert('added-1');
        db.afterCommit(trx, note('committed'));
        db.afterFailure(trx, note('failed'));
        const added = async (): Promise<void> => {
          await insert('added-2');
          throw new Error('it does not fit');
        };
        db.addAtEnd(trx, added, () => insert('added-3'));
      });
      assert.deepEqual(await names('added-'), ['added-1', 'added-3']);
      assert.deepEqual(told, ['failed', 'committed']);
    });

    test('that fail of themselves are not run again, and say so to who was added', async () => {
      let runs = 0;
      let failures = 0;
      const failing = db.transaction(async (trx) => {
        runs += 1;
        db.addAtEnd(
          trx,
          async () => {},
          async () => {},
        );
        db.afterFailure(trx, () => void (failures += 1));
        throw new Error('on its own');
      });
      await assert.rejects(failing, /on its own/);
      assert.deepEqual([runs, failures], [1, 1]);
    });

    test('give 64-bit columns as bigint and others as numbers', async () => {
      const row = { node: 7, holder: 'x', leased_until: 2n ** 63n - 1n, used_until: 5n };
      await db.transaction((trx) => trx.insertInto('id_nodes').values(row).execute());
      assert.deepEqual({ ...(await db.read.selectFrom('id_nodes').selectAll().executeTakeFirst()) }, row);
    });
  });
});
