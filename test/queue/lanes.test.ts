import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Database } from '../../src/db/open.ts';
import { claim, enqueue, release, remove, type ClaimedJob } from '../../src/queue/queue.ts';
import { onEveryDatabase } from '../support/databases.ts';

describe('a lane', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });

    const put = (id: bigint, lane: string) =>
      db.transaction((trx) =>
        enqueue(db, trx, { next: () => id }, { kind: lane, subjectId: id, accountId: id, lane: `lane of ${lane}` }),
      );
    const take = async (kind: string): Promise<ClaimedJob | undefined> => {
      const taken = await db.transaction((trx) =>
        claim(db, trx, { holder: 'h', kinds: [kind], seconds: 60, turn: 1n }),
      );
      assert.notEqual(taken, 'overtaken');
      return taken === 'overtaken' ? undefined : taken;
    };
    const finish = (job: ClaimedJob | undefined) => db.transaction((trx) => remove(trx, job ?? assert.fail()));

    test('is gone through one after the other, in order', async () => {
      for (const id of [12n, 11n, 13n]) await put(id, 'orderly');
      for (const expected of [11n, 12n, 13n]) {
        const job = await take('orderly');
        assert.equal(job?.id, expected);
        assert.equal(await take('orderly'), undefined);
        await finish(job);
      }
    });

    test('is not overtaken by one that is given back', async () => {
      for (const id of [21n, 22n]) await put(id, 'returned');
      const first = await take('returned');
      await db.transaction((trx) => release(db, trx, first ?? assert.fail()));
      assert.equal((await take('returned'))?.id, 21n);
    });

    test('has one claimed at a time, also when a clock that is behind numbers a new one low', async () => {
      await put(32n, 'skewed');
      const job = await take('skewed');
      await put(31n, 'skewed');
      assert.equal(await take('skewed'), undefined);
      await finish(job);
      assert.equal((await take('skewed'))?.id, 31n);
    });
  });
});
