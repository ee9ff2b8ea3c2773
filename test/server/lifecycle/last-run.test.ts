import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastRun, spanOf, waitedIn } from '../../../src/server/lifecycle/last-run.ts';

const build = (created: number, started: number | null, finished: number | null) => ({
  created_at: BigInt(created),
  started_at: started === null ? null : BigInt(started),
  finished_at: finished === null ? null : BigInt(finished),
});

test('the last run of a request begins when everything before it was over', () => {
  const first = [build(0, 1000, 61_000), build(0, 2000, 30_000)];
  assert.deepEqual(lastRun(first), first);
  const retry = build(61_001, 62_000, 90_000);
  assert.deepEqual(lastRun([...first, retry]), [...first, retry], 'an automatic retry belongs to the run');
  const again = [build(9_000_000, 9_001_000, 9_005_000), build(9_000_000, null, null)];
  assert.deepEqual(lastRun([...again, ...first, retry]), again);
  const during = build(9_500_000, null, null);
  assert.deepEqual(lastRun([...first, ...again, during]), [...again, during], 'one of it is not over');
  assert.deepEqual(spanOf(lastRun([...first, retry])), { started_at: 1000n, finished_at: 90_000n });
  // A build that was cancelled before it began has an end, but it took no time.
  assert.deepEqual(spanOf([build(0, null, 99_000), build(0, 5, 7)]), { started_at: 5n, finished_at: 7n });
  assert.deepEqual(spanOf([build(0, null, null)]), { started_at: null, finished_at: null });
});

test('a request waits while nothing of it runs', () => {
  const whole = { from: 0n, to: 100n };
  assert.equal(waitedIn([], whole), 100n);
  assert.equal(waitedIn([build(0, 10, 30), build(0, 20, 40), build(0, 60, 70)], whole), 10n + 20n + 30n);
  assert.equal(waitedIn([build(0, 60, null)], whole), 60n, 'what runs, runs until the end');
  assert.equal(waitedIn([build(0, 0, 200)], whole), 0n);
  assert.equal(waitedIn([build(0, 50, 40)], whole), 100n, 'an end before its start, after a clock was set back');
});
