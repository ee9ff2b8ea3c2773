import assert from 'node:assert/strict';
import test from 'node:test';
import { formatBytes } from '../../../src/shared/lib/byte-units.ts';

test('a size is written with two or three digits, in a unit that fits', () => {
  const sizes: [number | bigint, string][] = [
    [0, '0 bytes'],
    [1, '1 byte'],
    [1000, '1000 bytes'],
    [1001, '1.0 kB'],
    [99_900, '99.9 kB'],
    [99_960, '100 kB'],
    [999_499, '999 kB'],
    [999_500, '1.0 MB'],
    [700_000n, '700 kB'],
    [2 ** 30, '1.1 GB'],
    [5e15, '5000 TB'],
  ];
  for (const [bytes, words] of sizes) assert.equal(formatBytes(bytes), words);
});
