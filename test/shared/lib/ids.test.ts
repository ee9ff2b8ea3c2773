import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { createIds, largestId, parseId, timeOfId } from '../../../src/shared/lib/ids.ts';

const start = Date.UTC(2026, 10, 14);
const free = { node: 5, usedUntil: 0, mayUse: () => {} };

function assertGrowing(ids: bigint[]): void {
  for (const [at, id] of ids.entries()) assert.ok(at === 0 || id > (ids[at - 1] ?? 0n), `${id} at ${at}`);
}

describe('identifiers', () => {
  test('grow when five thousand are made in one millisecond', () => {
    const ids = createIds(free, () => start);
    const made = Array.from({ length: 5000 }, () => ids.next());
    assertGrowing(made);
    assert.equal(timeOfId(made[0] ?? 0n), start);
    assert.equal(timeOfId(made[4999] ?? 0n), start + 1);
  });

  test('grow whatever the clock does', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -100_000, max: 100_000 }), { maxLength: 200 }), (steps) => {
        let clock = start;
        const ids = createIds(free, () => clock);
        const made = steps.map((step) => {
          clock = Math.max(start - 1_000_000, clock + step);
          return ids.next();
        });
        assertGrowing(made);
      }),
    );
  });

  test('start above what their node has used before', () => {
    const ids = createIds({ ...free, usedUntil: start + 10_000 }, () => start);
    assert.ok(timeOfId(ids.next()) > start + 10_000);
  });

  test('differ between nodes in the same moment, and fit in 63 bits', () => {
    const made = Array.from({ length: 1024 }, (_, node) => createIds({ ...free, node }, () => start).next());
    assert.equal(new Set(made).size, 1024);
    const late = createIds({ ...free, node: 1023 }, () => Date.UTC(2085, 0, 1)).next();
    assert.ok(late > 0n && late <= largestId);
  });

  test('are not made with a time that may not be used', () => {
    let clock = start;
    const terms = {
      ...free,
      mayUse(time: number) {
        if (time > start + 5) throw new Error('lapsed');
      },
    };
    const ids = createIds(terms, () => clock);
    ids.next();
    clock = start + 6;
    assert.throws(() => ids.next(), /lapsed/);
    clock = start + 5;
    assert.equal(timeOfId(ids.next()), start + 5);
  });

  test('are read from decimal text and nothing else', () => {
    fc.assert(fc.property(fc.bigInt(0n, largestId), (id) => assert.equal(parseId(String(id)), id)));
    fc.assert(fc.property(fc.bigInt({ min: largestId + 1n }), (id) => assert.equal(parseId(String(id)), undefined)));
    fc.assert(
      fc.property(fc.string(), (text) =>
        assert.equal(parseId(text) !== undefined, /^\d{1,19}$/.test(text) && BigInt(text) <= largestId),
      ),
    );
  });
});
