import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

/**
 * SECURITY.md promises, and tests attack what it promises: `[promise: NAME]` in the name of a test says which promise it
 * belongs to. One without an attack is only a claim.
 */
const root = join(import.meta.dirname, '..');
const promised = Array.from(
  readFileSync(join(root, 'SECURITY.md'), 'utf8').matchAll(/^- \*\*\[([a-z-]+)\]\*\*/gm),
  ([, name = '']) => name,
);
const attacked = new Set(
  readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .flatMap((name) => readFileSync(join(root, 'test', name), 'utf8').match(/(?<=\[promise: )[a-z-]+(?=\])/g) ?? []),
);

describe('the promises of SECURITY.md', () => {
  test('have each a name of their own', () => {
    assert.ok(promised.length > 20);
    assert.deepEqual(promised, [...new Set(promised)]);
  });

  test('are each attacked by a test', () => {
    assert.deepEqual(
      promised.filter((name) => !attacked.has(name)),
      [],
    );
  });

  test('are all that tests speak of', () => {
    assert.deepEqual(
      [...attacked].filter((name) => !promised.includes(name)),
      [],
    );
  });
});
