import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');
const read = (name: string): string => readFileSync(join(root, name), 'utf8');

test('every package has a line that says what it is for', () => {
  const { dependencies, optionalDependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
    string,
    Record<string, string>
  >;
  const named = Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies });
  const told = Array.from(
    read('docs/dependencies-of-the-code.md').matchAll(/^\| `([^`]+)`/gm),
    ([, name = '']) => name,
  );
  assert.deepEqual(told.toSorted(), named.toSorted());
});
