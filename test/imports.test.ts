import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';

/**
 * Which rooms of src/ each room may use. A room is a folder, or a file at the top. Within a room everything may use
 * everything; cycles are the linter's business.
 */
const mayImport: Record<string, string> = {
  'main.ts': 'cli',
  cli: 'server.ts config.ts errors.ts api auth db http lib dispatch queue runner upkeep oauth',
  'server.ts':
    'config.ts errors.ts api auth db http lib resources lifecycle queue dispatch streams webhooks views protocol.ts oauth ui',
  'config.ts': 'lib',
  'errors.ts': '',
  'protocol.ts': '',
  http: 'errors.ts lib',
  auth: 'errors.ts http db lib',
  api: 'errors.ts http auth db lib',
  oauth: 'errors.ts http auth db lib',
  ui: 'errors.ts oauth api resources lifecycle streams views http auth db lib',
  resources: 'errors.ts api http auth lifecycle streams views db lib',
  lifecycle: 'queue streams views db lib',
  queue: 'db lib',
  dispatch: 'errors.ts protocol.ts queue lifecycle streams resources api http auth db lib',
  runner: 'protocol.ts lib',
  streams: 'errors.ts api db http auth lib',
  webhooks: 'queue lifecycle db lib',
  views: 'db lib',
  db: 'lib',
  lib: '',
};

const root = join(import.meta.dirname, '../src');

const roomOf = (file: string): string => relative(root, file).split('/')[0] ?? '';

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const forms = /(?:^|[\s;}])(?:from\s*|import\s*\(\s*|import\s+)(['"])(\.[^'"]+\.ts)\1/g;
  return Array.from(text.matchAll(forms), ([, , target = '']) => join(dirname(file), target));
}

describe('the rooms of the house', () => {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(root, name));

  test('use only what the table lets them', () => {
    const forbidden = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => {
          const [from, to] = [roomOf(file), roomOf(target)];
          return from !== to && !(mayImport[from] ?? '').split(' ').includes(to);
        })
        .map((target) => `${relative(root, file)} uses ${relative(root, target)}`),
    );
    assert.deepEqual(forbidden, []);
  });

  test('are all in the table', () => {
    const rooms = new Set(files.map(roomOf));
    assert.deepEqual(
      [...rooms].filter((room) => !(room in mayImport)),
      [],
    );
  });

  test('are seen whole: each import of each file is found', () => {
    const count = files.flatMap(importsOf).length;
    const relativeSpecifiers = files.flatMap(
      (file) => readFileSync(file, 'utf8').match(/['"]\.{1,2}\/[^'"]*\.ts['"]/g) ?? [],
    );
    assert.equal(count, relativeSpecifiers.length);
  });
});
