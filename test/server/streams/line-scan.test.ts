import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { findBreak } from '../../../src/server/streams/line-scan.ts';
import { countBreaks } from '../../../src/shared/lib/count-breaks.ts';

/** Bytes that differ from a line break by one bit or by one, and those whose sums overflow into their neighbours. */
const confusing = [0x0a, 0x0b, 0x09, 0x8a, 0x8b, 0x4a, 0x00, 0x01, 0x7f, 0x80, 0xff];

test('line breaks are counted and found in any bytes, wherever they begin and end', () => {
  for (let round = 0; round < 40; round += 1) {
    const whole = Buffer.from(randomBytes(3000).map((byte) => confusing[byte % confusing.length] ?? 0));
    for (let from = 0; from < 9; from += 1) {
      const bytes = whole.subarray(from, round * 70 + from);
      const places = [...bytes.entries()].filter(([, byte]) => byte === 0x0a).map(([at]) => at);
      assert.equal(countBreaks(bytes), places.length);
      const last = places.length;
      assert.deepEqual([findBreak(bytes, last), findBreak(bytes, last + 1)], [places[last - 1] ?? -1, -1]);
    }
  }
  assert.equal(countBreaks(Buffer.alloc(100_003, '\n')), 100_003);
});
