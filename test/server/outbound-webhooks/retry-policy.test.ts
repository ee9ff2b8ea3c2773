import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { retryPolicy, retryWait } from '../../../src/server/outbound-webhooks/retry-policy.ts';

describe('the wait between attempts', () => {
  test('begins at a second, doubles, and stays at a quarter of an hour', () => {
    const seconds = (failures: number): number => Math.round(retryWait(failures, retryPolicy, () => 0.5) / 1000);
    assert.deepEqual([1, 2, 3, 4, 10, 11, 12, 1000].map(seconds), [1, 2, 4, 8, 512, 900, 900, 900]);
  });

  test('differs from one to the next, by a fifth at most', () => {
    const waits = Array.from({ length: 1000 }, () => retryWait(1, retryPolicy));
    assert.ok(waits.every((wait) => wait >= 800 && wait < 1200));
    assert.ok(Math.max(...waits) - Math.min(...waits) > 200);
  });

  test('is such that a receiver may be away for a day', () => {
    assert.equal(retryPolicy.giveUpAfter, 24 * 60 * 60 * 1000);
  });
});
