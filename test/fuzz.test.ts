import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { seedsOf } from '../fuzz/seeds.ts';
import { targets } from '../fuzz/targets.ts';

/** Always the same inputs: new ones are the business of `npm run fuzz`. */
const seed = 1;

describe('what takes input from strangers', () => {
  for (const target of targets) {
    test(`${target.name} holds, and where it once failed`, async () => {
      const open = await target.open();
      try {
        for (const kept of seedsOf(target.name)) {
          await fc.assert(open.property, { seed: kept.seed, path: kept.path, endOnFailure: true });
        }
        await fc.assert(open.property, { seed, numRuns: target.runs });
      } finally {
        await open.close?.();
      }
    });
  }

  test('seeds are kept under the names of targets', () => {
    const names = readdirSync(new URL('../fuzz/seeds', import.meta.url)).filter((name) => name.endsWith('.json'));
    const known = new Set(targets.map(({ name }) => `${name}.json`));
    assert.deepEqual(
      names.filter((name) => !known.has(name)),
      [],
    );
  });
});
