import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { blobColumns, sealedColumns } from '../src/server/db/schema.ts';
import { columnName } from '../src/shared/records/fields.ts';

const root = join(import.meta.dirname, '../src');
/** The tables, and the types of their rows. */
const schema = ['schema.ts', ...readdirSync(join(root, 'server/db/rows')).map((name) => `rows/${name}`)]
  .map((name) => readFileSync(join(root, 'server/db', name), 'utf8'))
  .join('\n');
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => join(root, name));

interface Write {
  table: string;
  folder: string;
  file: string;
}

/** Every place where a table is written, by the query builder or by SQL. Migrations, dumps and keys are the store's own. */
function writesOf(file: string): Write[] {
  const name = relative(root, file);
  const folder = dirname(name);
  if (folder.startsWith('server/db')) return [];
  const text = readFileSync(file, 'utf8');
  const built = /\b(?:(?:insertInto|updateTable|deleteFrom)\(|insertRows\(\s*\w+,\s*)'(\w+)'/g;
  const said = /\b(?:insert into|update|delete from)\s+([a-z_]+)\s+(?:set|values|where|\(|select)/gi;
  const tables = [built, said].flatMap((form) => Array.from(text.matchAll(form), ([, table = '']) => table));
  return tables.map((table) => ({ table, folder, file: name }));
}

describe('who writes what', () => {
  const writes = files.flatMap(writesOf);
  const byTable = Map.groupBy(writes, ({ table }) => table);

  test('a table has one owner', () => {
    const shared = [...byTable].flatMap(([table, its]) => {
      const folders = new Set(its.map(({ folder }) => folder));
      return folders.size > 1 ? [`${table}: ${[...new Set(its.map(({ file }) => file))].join(', ')}`] : [];
    });
    assert.deepEqual(shared, []);
    assert.ok(byTable.size > 25, 'the writes are found');
  });

  test('tables with a state are written only in lifecycle, or in the one room of their own', () => {
    const rooms = new Map([
      ['dependencies', 'server/software'],
      ['dependency_events', 'server/software'],
      ['shells', 'server/outputs'],
      ['test_results', 'server/results'],
      ['connection_checks', 'server/triggers'],
    ]);
    const rowTypes = new Map(Array.from(schema.matchAll(/^  (\w+): (\w+Row);$/gm), ([, table, row]) => [row, table]));
    const withState = Array.from(schema.matchAll(/^export interface (\w+Row)[^{]*\{(.*?)^\}/gms))
      .filter(([, , body = '']) => /^ {2}(build_state|state|fetch): /m.test(body))
      .map(([, row = '']) => rowTypes.get(row) ?? assert.fail(`no table for ${row}`));
    assert.ok(withState.includes('builds') && withState.includes('webhook_deliveries'), 'the rows are found');
    const elsewhere = withState.flatMap((table) =>
      (byTable.get(table) ?? [])
        .filter(({ folder }) => folder !== (rooms.get(table) ?? 'server/lifecycle'))
        .map(({ file }) => `${table}: ${file}`),
    );
    assert.deepEqual(elsewhere, []);
  });
});

test('the two databases differ in db alone', () => {
  const branch = /\b(?:db|database)\.kind\b|['"`](?:sqlite|postgres)['"`]/;
  const elsewhere = files
    .map((file) => relative(root, file))
    .filter((name) => !name.startsWith('server/db/') && branch.test(readFileSync(join(root, name), 'utf8')));
  assert.deepEqual(elsewhere, []);
  assert.match("if (db.kind === 'postgres') return;", branch);
});

test('values of a row are encrypted only where the rotation of the master key waits for it', () => {
  // What the relay encrypts is on its way for a moment, and in no row.
  const own = [
    'shared/lib/vault.ts',
    'server/db/sealing.ts',
    'server/db/reseal.ts',
    'server/db/canary.ts',
    'server/streams/shell-relay.ts',
  ];
  const elsewhere = files
    .map((file) => relative(root, file))
    .filter((name) => !own.includes(name) && /\.seal\(/.test(readFileSync(join(root, name), 'utf8')));
  assert.deepEqual(elsewhere, []);
});

test('the row types have the columns of the tables, with their types', async () => {
  const db = new DatabaseSync(':memory:');
  const migrations = join(root, 'server/db/migrations');
  for (const name of readdirSync(migrations).filter((file) => file.endsWith('.sql')))
    db.exec(readFileSync(join(migrations, name), 'utf8'));
  const records = join(root, 'shared/records');
  const fields: Record<string, object> = Object.assign(
    {},
    ...(await Promise.all(readdirSync(records).map((name) => import(join(records, name))))),
  );
  const usual: Record<string, string> = { text: 'string', integer: 'number', bigint: 'bigint', bytea: 'Uint8Array' };
  const narrower = /^(?:Sealed|BlobDigest|ColumnsOf<.*)$/;
  const bodies = new Map(
    Array.from(schema.matchAll(/^export interface (\w+Row)([^{]*)\{(.*?)^\}/gms), ([, row = '', ...text]) => [
      row,
      text,
    ]),
  );
  const differences: string[] = [];
  const tables = Array.from(schema.matchAll(/^  (\w+): (\w+Row);$/gm), ([, table = '', row = '']) => ({ table, row }));
  for (const { table, row } of tables.filter((one) => one.table !== 'applied_migrations')) {
    const [heritage = '', body = ''] = bodies.get(row) ?? [];
    const typed = new Map(Array.from(body.matchAll(/^ {2}(\w+): (.*);$/gm), ([, name, type = '']) => [name, type]));
    const inFields = new Set(
      Array.from(heritage.matchAll(/typeof (\w+)/g), ([, name = '']) => Object.keys(fields[name] ?? {}))
        .flat()
        .map(columnName),
    );
    for (const { name, type: kind, notnull } of db
      .prepare(`select name, type, "notnull" from pragma_table_info(?)`)
      .all(table)) {
      const [type, nullable] = (typed.get(String(name)) ?? '').split(/ \| (?=null$)/);
      const isRight =
        (type === usual[String(kind).toLowerCase()] || narrower.test(type ?? '')) &&
        (nullable === undefined) === (notnull === 1);
      if (typed.has(String(name)) ? !isRight : !inFields.has(String(name)))
        differences.push(`${table}.${String(name)}`);
      typed.delete(String(name));
      inFields.delete(String(name));
    }
    differences.push(...[...typed.keys(), ...inFields].map((name) => `${table}.${name} has no column`));
  }
  assert.deepEqual(differences, []);
});

describe('columns that need care', () => {
  const rowTypes = new Map(Array.from(schema.matchAll(/^  (\w+): (\w+Row);$/gm), ([, table, row]) => [row, table]));
  const columns = Array.from(schema.matchAll(/^export interface (\w+Row)[^{]*\{(.*?)^\}/gms)).flatMap(
    ([, row = '', body = '']) =>
      Array.from(body.matchAll(/^ {2}(\w+): (.*);$/gm), ([, column = '', type = '']) => ({
        name: `${rowTypes.get(row)}.${column}`,
        type,
      })),
  );
  const named = (listed: readonly { table: string; column: string }[]): string[] =>
    listed.map(({ table, column }) => `${table}.${column}`).toSorted();

  test('columns with encrypted values are all known to the rotation of the master key', () => {
    const sealed = columns.filter(({ type }) => /\bSealed\b/.test(type)).map(({ name }) => name);
    assert.deepEqual(sealed.toSorted(), named(sealedColumns));
  });

  test('columns that refer to a blob are all known to the collection of blobs', () => {
    const referring = columns.filter(({ type }) => /\bBlobDigest\b/.test(type)).map(({ name }) => name);
    assert.deepEqual(referring.toSorted(), named(blobColumns));
    // A column with such a name that is not typed as one was forgotten; these say what is no blob, or keeps none.
    const others = [
      'jobs.named_blobs',
      'doomed_blobs.digest',
      'polled_refs.digest',
      'file_suites.digest',
      'build_requests.config_digest',
    ];
    const likely = columns.filter(
      ({ name, type }) =>
        /blob|digest|archive$|result$|artifact/.test(name.split('.')[1] ?? '') && /string|Digest/.test(type),
    );
    const forgotten = likely
      .map(({ name }) => name)
      .filter((name) => !referring.includes(name) && !others.includes(name));
    assert.deepEqual(forgotten, []);
  });
});

/** The table in ARCHITECTURE.md, which test/imports.test.ts holds, lets `ui` import nothing of the store. */
test('a page has no database, but for those that sign people in and ask for consent', () => {
  const ofTheSite = [
    'account',
    'authorize',
    'confirm',
    'invitation',
    'oidc',
    'passkeys',
    'password',
    'second',
    'sign-in',
    'site',
    'visitor',
  ];
  const names = /\bdb\b|[{,]\s*site\s*[,:}]|\.site\b|\bOwnServices\b|'kysely'/;
  const having = files
    .map((file) => relative(root, file))
    .filter((name) => /^server\/ui\/[^/]+$/.test(name) && names.test(readFileSync(join(root, name), 'utf8')));
  assert.deepEqual(
    having.toSorted(),
    ofTheSite.map((name) => `server/ui/${name}.ts`),
  );
});

test('the style sheet has no class that no page uses', () => {
  const sheet = readFileSync(join(root, 'server/ui/style.css'), 'utf8').replaceAll(/\/\*[^]*?\*\//g, '');
  const selectors = Array.from(sheet.matchAll(/([^{}]+)\{/g), ([, selector = '']) => selector);
  const classes = new Set(
    selectors.flatMap((one) => Array.from(one.matchAll(/\.([a-z][\w-]*)/g), ([, name = '']) => name)),
  );
  const pages = files
    .filter((file) => relative(root, file).startsWith('server/ui/'))
    .map((file) => readFileSync(file, 'utf8'));
  const used = new Set(pages.flatMap((page) => page.match(/[\w-]+/g) ?? []));
  // Of a piece of a log: `log-` and what its style says.
  const ofStyles = /^log-(?:bold|faint|italic|underline|struck|c\d+)$/;
  assert.ok(classes.size > 100, 'the classes are found');
  assert.deepEqual(
    [...classes].filter((name) => !used.has(name) && !ofStyles.test(name)),
    [],
  );
});

describe('what a module needs, it is handed', () => {
  /** What is the same for everybody in the process, whatever database, transaction or request it serves. */
  const keptForAll = new Map([
    ['server/ui/assets.ts: made', 'follows from the files of the program'],
    ['server/briefs/levelling.ts: out', 'filled anew by each call, which needs no memory of its own'],
    ['server/streams/search-worker.ts: matchers', 'a thread of its own, which is handed everything by messages'],
  ]);
  /** A page of a browser has its modules to itself. */
  const isOfServers = (name: string): boolean => !name.startsWith('server/ui/browser/');
  const filled = String.raw`const (\w+)(?:: [^=]+)? = (?:new (?:Weak(?:Map|Set)|(?:Map|Set)(?:<.*>)?\(\))|\[\];|\{\};)`;
  const variable = String.raw`let (\w+)`;
  /** A function that is called where it is written, and so has variables of its own. */
  const closure = String.raw`const (\w+)(?:: [^=]+)? = (?:await )?\((?:async )?(?:\(\) =>|function\b)`;
  const ofClass = String.raw` +static (?!readonly\b|async\b)(#?\w+)[^(;=]*[;=]`;
  const kept = new RegExp(`^(?:(?:export )?(?:${filled}|${variable}|${closure})|${ofClass})`, 'gm');
  /** Whether a constant is changed after all. */
  const isChanged = (text: string, constant: string): boolean =>
    new RegExp(
      String.raw`(?<![.\w])${constant}(?:\.(?:set|add|delete|clear|push|unshift|splice|pop|shift|fill)\(|(?:\.\w+|\[[^\]]+\])+ (?:\?\?|\|\||&&|\+|-)?= )`,
    ).test(text);
  const keptIn = (name: string, text: string): string[] => {
    const found = Array.from(text.matchAll(kept), (groups) => groups.slice(1).find((group) => group !== undefined));
    const constants = Array.from(text.matchAll(/^(?:export )?const (\w+)/gm), ([, constant = '']) => constant);
    const changed = constants.filter((constant) => isChanged(text, constant));
    return [...new Set([...found, ...changed])].map((one) => `${name}: ${one}`);
  };

  test('no module keeps a table or a variable of its own', () => {
    const found = files
      .map((file) => relative(root, file))
      .filter(isOfServers)
      .flatMap((name) => keptIn(name, readFileSync(join(root, name), 'utf8')));
    assert.deepEqual(found.toSorted(), [...keptForAll.keys()].toSorted());
  });

  test('such tables are found in every form', () => {
    const forms = [
      'const ledgers = new WeakMap<Transaction, Ledger>();',
      'export const seen = new WeakSet<object>();',
      "const byKind = new Map<Database['kind'], () => void>();",
      'const open: Set<Database> = new Set();',
      'const all: Transaction[] = [];',
      'let current: Database | undefined;',
      'const next = (() => {\n  let count = 0;\n  return () => (count += 1);\n})();',
      'class Names {\n  static #last = 0;\n}',
      "const words = ['one'];\nfunction add(word: string) {\n  words.push(word);\n}",
      'const last = { id: 0n };\nfunction note(id: bigint) {\n  last.id = id;\n}',
    ];
    for (const form of forms) assert.equal(keptIn('a.ts', form).length, 1, form);
    const constant = "const words = new Set(['one', 'two']);\nfunction f() {\n  const own = new Map();\n}";
    assert.deepEqual(keptIn('a.ts', constant), []);
  });
});
