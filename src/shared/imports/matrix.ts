import { longest, most } from '../domain/bounds.ts';
import { isReservedVariable } from '../domain/variable-names.ts';
import { isScalar, isTable, listOf, tableOf, type Suite } from './model.ts';

/** Variants as the other system has them: the values of each, by their names there (`node.version` for what is inside). */
export type Variant = ReadonlyMap<string, string>;

/** Programs read these, so a value of the matrix must not be there under such a name. */
const taken =
  /^(?:PATH|HOME|USER|SHELL|LANG|PWD|TMPDIR|TERM|CC|CXX|LD|AR|CFLAGS|CXXFLAGS|LDFLAGS|CPPFLAGS|MAKEFLAGS|OS|DEBUG|NODE_ENV|NODE_OPTIONS|PYTHONPATH|PYTHON|PYTHONHOME|GOOS|GOARCH|GOFLAGS|JAVA_HOME|RUSTFLAGS|TZ|LC_.*|npm_.*)$/;

export function variableOf(name: string): string {
  const upper = name
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .replace(/^(?=\d)/, '_')
    .toUpperCase();
  return taken.test(upper) || isReservedVariable(upper) ? `MATRIX_${upper}` : upper;
}

/** `{ a: { b: 1 } }` is `a.b` = `1`. */
export function flattened(value: unknown, name: string, into = new Map<string, string>()): Map<string, string> {
  if (isTable(value)) for (const [inner, one] of Object.entries(value)) flattened(one, `${name}.${inner}`, into);
  else if (Array.isArray(value)) into.set(name, JSON.stringify(value));
  else into.set(name, isScalar(value) ? String(value) : '');
  return into;
}

/** All combinations. Undefined if there are too many. */
export function combined(axes: readonly (readonly Variant[])[]): Map<string, string>[] | undefined {
  if (axes.reduce((count, axis) => count * axis.length, 1) > most.combinations) return undefined;
  return axes.reduce<Map<string, string>[]>(
    (before, axis) => before.flatMap((one) => axis.map((own) => new Map([...one, ...own]))),
    [new Map()],
  );
}

const isFit = (value: string): boolean => /^[^\s,\p{Cc}]+$/u.test(value);

/**
 * Writes the variants into the suite: `matrix` if they are all combinations, or else one line for each. Returns why it
 * cannot be said. A value that cannot stand in a matrix has a short name there, and `values` has the real ones. `lines` has each variant as it is written.
 */
export function writeVariants(
  suite: Suite,
  variants: readonly Variant[],
  names: ReadonlyMap<string, string>,
): { problem: string } | { values: ReadonlyMap<string, ReadonlyMap<string, string>>; lines: readonly string[] } {
  const keys = [...new Set(variants.flatMap((one) => [...one.keys()]))].filter((key) => names.has(key));
  const values = new Map<string, Map<string, string>>();
  const short = (key: string, value: string): string => {
    if (isFit(value)) return value;
    const known = values.get(key) ?? new Map<string, string>();
    values.set(key, known);
    const stem =
      value
        .replaceAll(/[^A-Za-z0-9._-]+/g, '_')
        .replaceAll(/^_+|_+$/g, '')
        .slice(0, 40) || 'none';
    const others = new Set(known.keys().filter((one) => known.get(one) !== value));
    let name = stem;
    for (let at = 2; others.has(name); at += 1) name = `${stem}_${at}`;
    known.set(name, value);
    return name;
  };
  const rows = variants.map((one) => keys.map((key) => short(key, one.get(key) ?? '')));
  const axes = keys.map((_, at) => [...new Set(rows.map((row) => row[at] ?? ''))]);
  const distinct = new Set(rows.map((row) => JSON.stringify(row)));
  if (distinct.size > most.variants) return { problem: `it has more than ${most.variants} variants` };
  const lineOf = (row: readonly string[]): string =>
    keys.map((key, at) => `${names.get(key) ?? ''}=${row[at] ?? ''}`).join(' ');
  const lines = rows.map(lineOf);
  if (keys.length === 0) return { values, lines };
  const all = Array.from(distinct, (row) => lineOf(JSON.parse(row) as string[]));
  if (all.some((line) => line.length > longest.variant)) return { problem: 'a variant of it is too long' };
  const isWhole = axes.reduce((count, { length }) => count * length, 1) === distinct.size;
  if (isWhole && keys.length <= most.matrixLines)
    suite.fields.matrix = keys.map((key, at) => `${names.get(key) ?? ''}=${axes[at]?.join(',') ?? ''}`);
  else suite.fields.matrix_include = all;
  return { values, lines };
}

/**
 * Writes a matrix whose values scripts read by their own names: of each table all combinations of its lists, and the
 * single variants of `include`. Returns why it cannot be said.
 */
export function writeTables(suite: Suite, tables: readonly unknown[], include: unknown = []): string | undefined {
  const lists = tables.map((table) => {
    const axes = Object.entries(tableOf(table)).map(([axis, values]) =>
      listOf(values).map((one) => flattened(one, axis)),
    );
    return axes.length === 0 ? [] : combined(axes);
  });
  const single = listOf(include).map(
    (one) => new Map(Object.entries(tableOf(one)).map(([axis, value]) => [axis, String(value)])),
  );
  if (lists.includes(undefined)) return 'it has too many combinations';
  const variants = [...lists.flatMap((one) => one ?? []), ...single];
  if (variants.some((one) => one.values().some((text) => !/^[^\s,]+$/.test(text))))
    return 'a value of a matrix has no blanks and commas';
  const keys = new Map(variants.flatMap((one) => Array.from(one.keys(), (axis) => [axis, axis] as const)));
  const written = writeVariants(suite, variants, keys);
  return 'problem' in written ? written.problem : undefined;
}

/** Puts the real values in place of the short names. */
export function realValues(
  values: ReadonlyMap<string, ReadonlyMap<string, string>>,
  names: ReadonlyMap<string, string>,
  quote: (text: string) => string,
): string {
  return Array.from(values, ([key, known]) => {
    const name = names.get(key) ?? '';
    const cases = Array.from(known, ([short, value]) => `${quote(short)}) ${name}=${quote(value)} ;;`);
    return `case "$${name}" in ${cases.join(' ')} esac\n`;
  }).join('');
}
