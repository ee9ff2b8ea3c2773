import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Database } from '../../../src/server/db/open.ts';
import { startWorkLoop } from '../../../src/server/db/work-loop.ts';
import { onEveryDatabase } from '../../support/databases.ts';

onEveryDatabase((database) => {
  let db: Database;
  before(async () => {
    db = await database.open();
  });
  const untroubled = (error: unknown): void => assert.fail(error as Error);
  const announce = (topic: string) => db.transaction((trx) => db.announce(trx, topic));

  test('looks once more for who asks while a look is under way, however many ask', async () => {
    const looks: PromiseWithResolvers<number>[] = [];
    const repeated = startWorkLoop(
      db,
      'bread',
      () => {
        const look = Promise.withResolvers<number>();
        looks.push(look);
        return look.promise;
      },
      { everyMs: 1e6, onError: untroubled },
    );
    repeated.wake();
    repeated.wake();
    assert.equal(looks.length, 1);
    looks[0]?.resolve(1e6);
    await new Promise(setImmediate);
    assert.equal(looks.length, 2);
    looks[1]?.resolve(1e6);
    await repeated.close();
    repeated.wake();
    await announce('bread');
    assert.equal(looks.length, 2);
  });

  test('hears what is announced about its topic alone, and is told so once', async () => {
    const runs: boolean[] = [];
    let run = Promise.withResolvers<void>();
    const repeated = startWorkLoop(
      db,
      'bread',
      async (isAnnounced) => {
        runs.push(isAnnounced);
        run.resolve();
        return 1e6;
      },
      { everyMs: 1e6, onError: untroubled },
    );
    await announce('wine');
    await announce('bread');
    // It may also run because the database has begun to listen.
    for (; !runs.includes(true); await run.promise) run = Promise.withResolvers<void>();
    run = Promise.withResolvers<void>();
    repeated.wake();
    await run.promise;
    await repeated.close();
    assert.deepEqual([runs[0], runs.at(-1), runs.filter((isAnnounced) => isAnnounced).length], [false, false, 1]);
  });

  test('goes on while there is something to do, and after trouble', async () => {
    const troubles: unknown[] = [];
    const done = Promise.withResolvers<void>();
    let looks = 0;
    const repeated = startWorkLoop(
      db,
      'bread',
      async () => {
        looks += 1;
        if (looks === 2) throw new Error('once');
        if (looks === 4) done.resolve();
        return looks === 4 ? 1e6 : 0;
      },
      { everyMs: 1, onError: (error) => troubles.push(error) },
    );
    await done.promise;
    await repeated.close();
    assert.equal(troubles.length, 1);
    assert.equal(looks, 4);
  });
});
