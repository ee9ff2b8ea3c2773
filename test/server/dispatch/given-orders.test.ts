import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { insertRunner, type Runner } from '../../../src/server/auth/runners.ts';
import type { Database } from '../../../src/server/db/open.ts';
import { createDispatcher, type Dispatcher } from '../../../src/server/dispatch/dispatcher.ts';
import type { Orders } from '../../../src/server/dispatch/orders.ts';
import { hashSecret } from '../../../src/shared/lib/passwords.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { heldBy } from '../../../src/server/queue/leases.ts';
import { enqueue } from '../../../src/server/queue/queue.ts';
import type { Order } from '../../../src/shared/protocol/index.ts';
import { onEveryDatabase } from '../../support/databases.ts';

const patient = new AbortController().signal;

/* A claim that is stored reaches its runner. Otherwise a build has begun, and nobody runs it. */
describe('a claim that is being stored', () => {
  onEveryDatabase((database) => {
    let db: Database;
    let last = 1000n;
    const ids = { next: () => (last += 1n) };
    let dispatcher: Dispatcher;
    let [claimed, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    beforeEach(async () => {
      db = await database.open();
      [claimed, commit] = [Promise.withResolvers(), Promise.withResolvers()];
      dispatcher = createDispatcher(db, orders);
    });

    const take = (holder: string, name: string) => (trx: Parameters<typeof claim>[1]) =>
      claim(db, trx, { kinds: ['run_suite'], holder, name, seconds: 60, turn: ids.next() });
    /** Claims as the real one does, and commits when the test says so. */
    const orders: Pick<Orders, 'now' | 'serving'> = {
      serving: () => [{ kinds: ['run_suite'] }],
      now: async ({ runner: { holder }, name, mayBeGiven }, isWanted = () => true) => {
        if (mayBeGiven) return orderUnder(name);
        return db.transaction(async (trx) => {
          if (!isWanted() || typeof (await take(holder, name)(trx)) !== 'object') return undefined;
          claimed.resolve();
          await commit.promise;
          return orderUnder(name);
        });
      },
    };
    const orderUnder = (name: string): Order => ({ claim: name }) as Order;
    const put = (): Promise<void> =>
      db.transaction((trx) => enqueue(db, trx, ids, { kind: 'run_suite', subjectId: 1n, accountId: 1n }));
    const runner: Runner = { holder: 'one' };
    const heldClaims = async (): Promise<unknown[]> => (await heldBy(db.read, 'one')).map(({ claim: name }) => name);

    test('reaches a runner that takes its wish back', async () => {
      const order = dispatcher.next(runner, { claim: 'first' }, patient);
      await put();
      await claimed.promise;
      const left = dispatcher.leave('one', ['first']);
      commit.resolve();
      assert.equal((await order)?.claim, 'first');
      await left;
      assert.deepEqual(await heldClaims(), ['first']);
    });

    test('reaches a runner that is drained', async () => {
      const { token } = await db.transaction((trx) => insertRunner(trx, ids, 'far'));
      const tokenHash = hashSecret(token);
      const order = dispatcher.next({ ...runner, tokenHash }, { claim: 'first' }, patient);
      await put();
      await claimed.promise;
      const checked = dispatcher.check(new Map([[tokenHash, { isDraining: true }]]));
      commit.resolve();
      assert.equal((await order)?.claim, 'first');
      await checked;
    });

    test('is stored when its server has been told to give no more', async () => {
      await put();
      const order = dispatcher.next(runner, { claim: 'first' }, patient);
      await claimed.promise;
      let isQuiet = false;
      const quiet = dispatcher.quiet().then(async () => {
        isQuiet = true;
        return heldClaims();
      });
      assert.deepEqual(await heldClaims(), []);
      assert.equal(isQuiet, false);
      commit.resolve();
      assert.deepEqual(await quiet, ['first']);
      assert.equal((await order)?.claim, 'first');
    });

    test('reaches the same wish at another server, where the runner waits already', async () => {
      const other = createDispatcher(db, orders);
      const gone = new AbortController();
      const lost = dispatcher.next(runner, { claim: 'first' }, gone.signal);
      await put();
      await claimed.promise;
      gone.abort(); // the connection broke, and the runner comes back elsewhere
      const order = other.next(runner, { claim: 'first' }, patient);
      assert.deepEqual(await heldClaims(), []); // by then it waits
      commit.resolve();
      await lost; // nobody hears of this answer
      await other.check(new Map());
      assert.equal((await order)?.claim, 'first');
      assert.deepEqual(await heldClaims(), ['first']);
    });
  });
});
