import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWorkLoop } from '../../src/lib/work-loop.ts';

const untroubled = (error: unknown): void => assert.fail(error as Error);

test('looks once more for who asks while a look is under way, however many ask', async () => {
  const looks: PromiseWithResolvers<number>[] = [];
  const repeated = startWorkLoop(
    () => {
      const look = Promise.withResolvers<number>();
      looks.push(look);
      return look.promise;
    },
    { everyMs: 1e6, onError: untroubled },
  );
  repeated.wake();
  repeated.wake();
  repeated.wake();
  assert.equal(looks.length, 1);
  looks[0]?.resolve(1e6);
  await new Promise(setImmediate);
  assert.equal(looks.length, 2);
  looks[1]?.resolve(1e6);
  await repeated.close();
  repeated.wake();
  assert.equal(looks.length, 2);
});

test('goes on while there is something to do, and after trouble', async () => {
  const troubles: unknown[] = [];
  const done = Promise.withResolvers<void>();
  let looks = 0;
  const repeated = startWorkLoop(
    async () => {
      looks += 1;
      if (looks === 2) throw new Error('once');
      if (looks === 4) done.resolve();
      return looks === 4 ? 1e6 : 0;
    },
    { everyMs: 1, onError: (error) => troubles.push(error) },
  );
  repeated.wake();
  await done.promise;
  await repeated.close();
  assert.equal(troubles.length, 1);
  assert.equal(looks, 4);
});
