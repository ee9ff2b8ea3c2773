import assert from 'node:assert/strict';
import { test } from 'node:test';
import { longestTurn } from '../support/event-loop.ts';
import { largestInputs } from '../support/largest.ts';
import { describeService } from '../support/service.ts';

/**
 * Nothing that grows with what a stranger sends keeps the server from answering others for more than 50 ms. `npm run
 * bench -- holds` measures that; here the limit has room for slow machines, and for the client, which is in the same
 * thread.
 */
const mostMs = 750;

describeService('the largest input', (service) => {
  test('that is allowed holds up nobody else for long [promise: bounds]', async (t) => {
    const slow: string[] = [];
    for await (const { name, work } of largestInputs(service)) {
      const beganAt = performance.now();
      const { result, longestMs } = await longestTurn(work);
      const took = ((performance.now() - beganAt) / 1000).toFixed(1);
      t.diagnostic(`${name}: ${longestMs.toFixed(0)} ms of ${took} s, answered ${result.status}`);
      assert.ok(result.status < 500, `${name}: ${result.status}`);
      if (longestMs > mostMs) slow.push(`${name}: ${longestMs.toFixed(0)} ms`);
    }
    assert.deepEqual(slow, []);
  });
});
