import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../src');

/**
 * The table in ARCHITECTURE.md says which folder of src/ may import which. It is the only copy. A room is a folder, or a
 * file at the top. Within a room everything may use everything, but no file itself by way of others.
 */
const rows = readFileSync(join(root, '../ARCHITECTURE.md'), 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, name = '', , listed = ''] = line.split('|').map((cell) => cell.trim());
    const room = /^`([\w-]+(?:\.ts|\/))`$/.exec(name)?.[1];
    return room === undefined ? [] : [{ room: roomNamed(room), listed }];
  });

function roomNamed(name: string): string {
  return name.replace(/\/$/, '');
}

const namesIn = (listed: string): string[] =>
  Array.from(listed.matchAll(/`([\w.-]+)`/g), ([, name = '']) => (rooms().has(`${name}.ts`) ? `${name}.ts` : name));

function rooms(): Set<string> {
  return new Set(rows.map(({ room }) => room));
}

/** What a row allows: a list of rooms, `nothing`, or `everything but` a list. */
function allowed(listed: string): Set<string> {
  const named = new Set(namesIn(listed));
  if (listed === 'nothing') return named;
  return listed.startsWith('everything but ') ? rooms().difference(named) : named;
}

const mayImport = new Map(rows.map(({ room, listed }) => [room, allowed(listed)]));

const roomOf = (file: string): string => relative(root, file).split('/')[0] ?? '';

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const forms = /(?:^|[\s;}])(?:from\s*|import\s*\(\s*|import\s+)(['"])(\.[^'"]+\.ts)\1/g;
  return Array.from(text.matchAll(forms), ([, , target = '']) => join(dirname(file), target));
}

const toName = (file: string): string => relative(root, file);

/** Groups of files of which each leads to each other, by the algorithm of Kosaraju. */
function circles(uses: ReadonlyMap<string, readonly string[]>): string[][] {
  const usedBy = new Map<string, string[]>();
  for (const [file, used] of uses) for (const one of used) usedBy.set(one, [...(usedBy.get(one) ?? []), file]);
  const reach = (from: string, edges: ReadonlyMap<string, readonly string[]>, seen: Set<string>): string[] => {
    if (seen.has(from)) return [];
    seen.add(from);
    return [...(edges.get(from) ?? []).flatMap((to) => reach(to, edges, seen)), from];
  };
  const first = new Set<string>();
  const order = [...uses.keys()].flatMap((file) => reach(file, uses, first)).toReversed();
  const second = new Set<string>();
  const groups = order.map((file) => reach(file, usedBy, second).toSorted());
  return groups.filter(({ length }) => length > 1).toSorted((a, b) => (String(a) < String(b) ? -1 : 1));
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
          return from !== to && !mayImport.get(from)?.has(to);
        })
        .map((target) => `${relative(root, file)} uses ${relative(root, target)}`),
    );
    assert.deepEqual(forbidden, []);
  });

  test('are those of the table, each once, and the table names no others', () => {
    const names = rows.map(({ room }) => room);
    assert.deepEqual(names.toSorted(), [...new Set(files.map(roomOf))].toSorted());
    const unknown = rows.flatMap(({ listed }) => namesIn(listed).filter((name) => !names.includes(name)));
    assert.deepEqual(unknown, []);
    const unread = rows.filter(
      ({ listed }) => !/^(nothing|(everything but )?`[\w.`, -]+( and `[\w.]+`)?)$/.test(listed),
    );
    assert.deepEqual(unread, []);
  });

  test('have no circle of files that use each other, not even for their types', () => {
    assert.deepEqual(circles(new Map(files.map((file) => [relative(root, file), importsOf(file).map(toName)]))), []);
    const example = { a: ['b', 'd'], b: ['c'], c: ['b'], d: ['e'], e: ['d', 'f'], f: [] };
    assert.deepEqual(circles(new Map(Object.entries(example))), [
      ['b', 'c'],
      ['d', 'e'],
    ]);
  });

  test('are seen whole: each import of each file is found', () => {
    const count = files.flatMap(importsOf).length;
    const relativeSpecifiers = files.flatMap(
      (file) => readFileSync(file, 'utf8').match(/['"]\.{1,2}\/[^'"]*\.ts['"]/g) ?? [],
    );
    assert.equal(count, relativeSpecifiers.length);
  });

  test('know of routes only what they answer, where they call them: the command line does not load the server', () => {
    const loading = files.filter(
      (file) =>
        ['client', 'ui'].includes(roomOf(file)) &&
        /^import (?!type\b)[^;]*'\.\.\/(?:resources|records)\/[^']*';/m.test(readFileSync(file, 'utf8')),
    );
    assert.deepEqual(loading, []);
  });

  test('take HTTP from lib/http.ts, which says what an import of it would load', () => {
    const importing = files.filter((file) =>
      /^import (?!type\b)[^;]*'(?:node:)?http';/m.test(readFileSync(file, 'utf8')),
    );
    assert.deepEqual(importing, []);
  });
});
