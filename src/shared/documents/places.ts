import { isTable, type Origin, type Path, type Resolved } from './templates.ts';

interface Located extends Origin {
  value: unknown;
  line: number | undefined;
}

type Searched = Pick<Resolved, 'table' | 'origins' | 'included'> & { lines?: ReadonlyMap<string, number> };

/** Where something is written. A field that a suite inherits is where it inherits it from. */
export function find({ table: own, origins, included, lines }: Searched, where: string): Located {
  const table = included && isTable(own) ? { ...own, include: included.map((file) => file.table) } : own;
  let path: Path = [];
  let at = where;
  let line: number | undefined;
  let inside: unknown = table;
  let rest = where.replace(/^[^[]+/, '[$&]');
  while (rest !== '' && inside !== undefined) {
    const [key, length] = Array.isArray(inside) ? entryAt(inside, rest) : keyAt(inside, path, rest);
    path = [...path, key];
    rest = rest.slice(length + 2);
    const origin = origins.get(JSON.stringify(path));
    if (origin) {
      path = origin.path;
      at = origin.at + rest;
    }
    line = lines?.get(JSON.stringify(path)) ?? line;
    inside = origin ? valueAt(table, origin.path) : childOf(inside, key);
  }
  return { path, at, value: inside, line };
}

const childOf = (inside: unknown, key: string | number): unknown =>
  (inside as Record<string | number, unknown> | null | undefined)?.[key];

const valueAt = (table: unknown, path: Path): unknown => path.reduce(childOf, table);

const nameAt = (rest: string): string => /^\[(.*?)(?:\](?=\[|$)|$)/s.exec(rest)?.[1] ?? rest;

const longest = (names: readonly unknown[], rest: string): string | undefined =>
  names
    .filter((name): name is string => typeof name === 'string' && rest.startsWith(`[${name}]`))
    .toSorted((a, b) => b.length - a.length)[0];

/** Names may contain brackets. */
function keyAt(inside: unknown, path: Path, rest: string): [key: string, length: number] {
  const isTemplates = path.length === 1 && path[0] === 'templates';
  const name = (isTemplates ? longest(Object.keys(inside ?? {}), rest) : undefined) ?? nameAt(rest);
  return [name, name.length];
}

/** Entries without a name have numbers. */
function entryAt(list: readonly unknown[], rest: string): [key: string | number, length: number] {
  const names = list.map((item) => (item as Record<string, unknown> | null | undefined)?.name);
  const called = longest(names, rest);
  if (called !== undefined) return [names.indexOf(called), called.length];
  const name = nameAt(rest);
  return [/^\d+$/.test(name) ? Number(name) : name, name.length];
}
