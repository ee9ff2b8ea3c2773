import assert from 'node:assert/strict';
import { test } from 'node:test';
import { challengeOf } from '../../src/runner/images/registry-check.ts';

test('what a registry wants to see is read from its challenge', () => {
  const header = 'Bearer realm="https://auth.example.org/token",service="registry",scope="repository:a/b:pull"';
  assert.deepEqual(challengeOf(header), {
    scheme: 'bearer',
    values: { realm: 'https://auth.example.org/token', service: 'registry', scope: 'repository:a/b:pull' },
  });
});

test('a challenge takes no longer for a long word in it than for many short ones', () => {
  const took = (rest: string): number => {
    const times = Array.from({ length: 5 }, () => {
      const startedAt = performance.now();
      challengeOf(`Bearer ${rest}`);
      return performance.now() - startedAt;
    });
    return Math.min(...times);
  };
  // As long as Node lets a head be. Without a bound on each try it is some hundred times.
  const [long, short] = [took('a'.repeat(16_000)), took('a '.repeat(8000))];
  assert.ok(long < 30 * short + 1, `${long} ms against ${short} ms`);
});
