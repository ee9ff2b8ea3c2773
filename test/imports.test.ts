import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../src');

/**
 * The table in ARCHITECTURE.md says which room of src/ may import which. It is the only copy. A room is a folder of a wing,
 * the files that lie beside these folders, or a file at the top of src/ or of shared/. Within a room everything may use
 * everything, but no file itself by way of others. The names of rooms are their own, so a row leaves the wing out.
 */
const rows = readFileSync(join(root, '../ARCHITECTURE.md'), 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, name = '', , listed = ''] = line.split('|').map((cell) => cell.trim());
    const room = /^`((?:[\w-]+\/)*[\w-]+(?:\.ts|\/))`$/.exec(name)?.[1];
    return room === undefined ? [] : [{ room: room.replace(/\/$/, ''), listed }];
  });
const names = new Set(rows.map(({ room }) => ownName(room)));

function ownName(room: string): string {
  return room.split('/').at(-1)?.replace(/\.ts$/, '') ?? '';
}

const namesIn = (listed: string): string[] => Array.from(listed.matchAll(/`([\w-]+)`/g), ([, name = '']) => name);

/** What a row allows: a list of rooms, `nothing`, or `everything but` a list. */
function allowed(listed: string): Set<string> {
  const named = new Set(namesIn(listed));
  return listed.startsWith('everything but ') ? names.difference(named) : named;
}

const mayImport = new Map(rows.map(({ room, listed }) => [ownName(room), allowed(listed)]));

/** A room's way from src/. */
function placeOf(file: string): string {
  const [wing = '', ...below] = relative(root, file).split('/');
  if (wing === 'runner' || below.length === 0) return wing;
  return below.length === 1 && wing !== 'shared' ? wing : `${wing}/${below[0]}`;
}

const roomOf = (file: string): string => ownName(placeOf(file));

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
    const rooms = rows.map(({ room }) => room);
    assert.deepEqual(rooms.toSorted(), [...new Set(files.map(placeOf))].toSorted());
    assert.equal(names.size, rooms.length, 'two rooms have one name');
    const unknown = rows.flatMap(({ listed }) => namesIn(listed).filter((name) => !names.has(name)));
    assert.deepEqual(unknown, []);
    const unread = rows.filter(
      ({ listed }) => !/^(nothing|(everything but )?`[\w`, -]+( and `[\w-]+`)?)$/.test(listed),
    );
    assert.deepEqual(unread, []);
  });

  test('stand in wings: a runner and what developers run load nothing of a server', () => {
    const wing = (file: string): string => relative(root, file).split('/')[0] ?? '';
    const ways = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => ![wing(file), 'shared'].includes(wing(target)))
        .map((target) => `${placeOf(file)} uses ${wing(target)}`),
    );
    assert.deepEqual([...new Set(ways)].toSorted(), [
      'cli/client uses server', // types of what it answers, as the test below says
      'cli/developer uses runner',
      'cli/operator uses runner',
      'cli/operator uses server',
      'main.ts uses cli',
    ]);
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
        ['client', 'ui', 'agents'].includes(roomOf(file)) &&
        /^import (?!type\b)[^;]*'[./]*\/(?:resources\/[^']*|records\/(?!raw\.)[^']*)';/m.test(
          readFileSync(file, 'utf8'),
        ),
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
