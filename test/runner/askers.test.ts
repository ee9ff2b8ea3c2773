import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Askers } from '../../src/runner/askers.ts';

const patient = new AbortController().signal;

/** Four executors that ask for ever, and a server that answers what the test says. */
function open(signal = patient): {
  held: PromiseWithResolvers<string | undefined>[];
  got: string[];
  ended: Promise<void>[];
} {
  const askers = new Askers();
  const held: PromiseWithResolvers<string | undefined>[] = [];
  const got: string[] = [];
  const executor = async (): Promise<void> => {
    while (!signal.aborted) {
      const order = await askers.ask(async () => {
        const request = Promise.withResolvers<string | undefined>();
        held.push(request);
        return request.promise;
      }, signal);
      if (order !== undefined) got.push(order);
    }
  };
  return { held, got, ended: Array.from({ length: 4 }, () => executor()) };
}

const settled = async (): Promise<void> => {
  for (let count = 0; count < 5; count += 1) await turn();
};

describe('executors that have nothing to do', () => {
  test('leave one request with the server, and all ask again when work comes', async () => {
    const { held, got } = open();
    const answer = async (with_?: string): Promise<void> => {
      held.shift()?.resolve(with_);
      await settled();
    };
    assert.equal(held.length, 4);
    for (let left = 3; left >= 1; left -= 1) {
      await answer();
      assert.equal(held.length, left);
    }
    await answer();
    assert.equal(held.length, 1, 'the last one asks again');
    await answer('an order');
    assert.deepEqual(got, ['an order']);
    assert.equal(held.length, 4);
  });

  test('end together when the server refuses the runner, or the runner stops', async () => {
    const refused = open();
    for (let count = 0; count < 3; count += 1) {
      refused.held.shift()?.resolve(undefined);
      await settled();
    }
    const ends = Promise.allSettled(refused.ended);
    refused.held.shift()?.reject(new Error('refused'));
    await settled();
    for (const { reject } of refused.held) reject(new Error('refused'));
    assert.deepEqual(new Set((await ends).map(({ status }) => status)), new Set(['rejected']));

    const stopping = new AbortController();
    const stopped = open(stopping.signal);
    stopped.held.shift()?.resolve(undefined);
    await settled();
    stopping.abort(new Error('stopped'));
    for (const { reject } of stopped.held) reject(new Error('stopped'));
    await Promise.allSettled(stopped.ended);
  });
});
