import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { bytes as mostBytes } from '../src/shared/domain/bounds.ts';
import { insertUser } from '../src/server/auth/users.ts';
import { openStore, type Store } from '../src/cli/operator/store.ts';
import { readConfig } from '../src/shared/config.ts';
import type { Queries } from '../src/server/db/open.ts';
import { removeTree } from '../src/shared/lib/remove-tree.ts';
import { createProject } from '../src/server/lifecycle/projects.ts';
import { openRequest } from '../src/server/lifecycle/requests.ts';
import { configuringFrom } from '../src/server/resources/config-repository.ts';
import { sections, suites, type Kind } from '../src/shared/documents/kinds.ts';
import { routes } from '../src/server/resources/index.ts';
import { mutated, oddBytes } from './mutations.ts';
import { anyProperty, type Target } from './target.ts';

const text = fc.oneof(
  fc.constantFrom(
    '',
    'unit',
    'lint',
    'main',
    'commit.message',
    'contains',
    'x'.repeat(300),
    '../x',
    '\u0000',
    '__proto__',
  ),
  fc.string({ unit: 'binary', maxLength: 20 }),
);
const value = fc.oneof(text, fc.integer(), fc.boolean(), fc.array(text, { maxLength: 3 }), fc.constant({}));
/** The names of all fields, those of records in lists too, so that a new one is tried by itself. */
const namesIn = ({ section, fields, children = [] }: Pick<Kind, 'section' | 'fields' | 'children'>): string[] => [
  section,
  ...fields.flatMap(({ name, field }) => [name, ...Object.keys(field?.schema.items?.properties ?? {})]),
  ...children.flatMap(namesIn),
];
const others = [
  'extends',
  'include',
  'defaults',
  'templates',
  'dependencies',
  'keep',
  'project_id',
  'id',
  '__proto__',
  'constructor',
];
const names = fc.constantFrom(...new Set([...sections.flatMap(namesIn), ...others]));
const entry = fc.dictionary(
  names,
  fc.oneof(value, fc.array(fc.dictionary(names, value, { maxKeys: 4 }), { maxLength: 2 })),
  {
    maxKeys: 6,
  },
);
/** With one odd setting alone: of several, the first mistakes hide what comes after them. */
const oddSuite = fc
  .tuple(fc.constantFrom('unit', 'lint'), fc.constantFrom(...suites.fields.map((field) => field.name)), value)
  .map(([name, odd, given]) => ({ name, command: 'make', [odd]: given }));
const suite = fc
  .tuple(text, text, text, entry)
  .map(([name, command, other, more]) => ({ extends: other, ...more, name, command }));
const odd = fc.uniqueArray(oddSuite, { maxLength: 2, selector: ({ name }) => name }).map((some) => ({ suites: some }));
const document = fc.record(
  {
    suites: fc.oneof(fc.array(suite, { maxLength: 3 }), value),
    schedules: fc.array(entry, { maxLength: 2 }),
    deploy_strategies: fc.array(entry, { maxLength: 2 }),
    hooks: fc.array(entry, { maxLength: 1 }),
    notifications: value,
    defaults: fc.oneof(entry, value),
    templates: fc.oneof(fc.dictionary(text, fc.oneof(entry, value), { maxKeys: 3 }), value),
    include: fc.oneof(fc.array(entry, { maxLength: 2 }), value),
    name: text,
    public_badge: value,
  },
  { requiredKeys: [] },
);
const toml = `[defaults]
image = "alpine"

[templates.make]
extends = "unit"

[[suites]]
name = "unit"
command = "make test"
matrix = [ "CC=gcc,clang" ]

[[suites.rules]]
subject = "commit.branches"
operator = "equals"
value = "main"

[[schedules]]
cron = "0 3 * * *"

[[deploy_strategies]]
name = "live"
strategy_type = "git"
repository_url = "deploy@example.org:live.git"
local_branch = "main"
remote_branch = "production"
`;
const file = fc.oneof(
  fc.oneof(odd, document).map((said) => ({ path: 'ci.json', bytes: Buffer.from(JSON.stringify(said)) })),
  mutated(fc.constant(Buffer.from(toml))).map((bytes) => ({ path: 'ci.toml', bytes })),
  fc.tuple(fc.constantFrom('ci.toml', 'ci.json'), oddBytes).map(([path, bytes]) => ({ path, bytes })),
);

/** Tables that a document could write, with the column that says whose a row is. */
const tables = ['suites', 'schedules', 'deploy_strategies', 'hooks', 'notifications', 'collaborators'] as const;

async function ofOthers(db: Queries, own: bigint): Promise<unknown[]> {
  const rows: unknown[] = [await db.selectFrom('projects').selectAll().where('id', '!=', own).execute()];
  for (const table of tables)
    rows.push(
      await db
        .selectFrom(table as 'suites')
        .selectAll()
        .where('project_id', '!=', own)
        .execute(),
    );
  return rows;
}

/** What a try has changed is undone. */
class Undone extends Error {}

/**
 * A file of a repository that configures its project: whatever its bytes are, it is applied or refused in words, and
 * neither another project nor what is its owner's alone is changed.
 */
export const configFiles: Target = {
  name: 'config-files',
  runs: 150,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    const config = readConfig({ flags: { data_dir: folder, port: '0' }, env: {} });
    const store = await openStore(config, (error) => {
      throw error;
    });
    const configure = configuringFrom(routes, store, '');
    const { project, request } = await twoProjects(store);
    const property = fc.asyncProperty(file, async ({ path, bytes }) => {
      const { db, ids, observers } = store;
      const trying = db.transaction(async (trx) => {
        const before = await ofOthers(trx, project.id);
        const found = { ...project, config_file: path };
        const text = bytes.toString().replaceAll('\0', ' ').slice(0, mostBytes.configFile);
        const context = { db, trx, ids, observers };
        const read = await configure.read({ project: found, text });
        const about = { request, sha: 'a'.repeat(40), refs: ['refs/heads/main'], holdFirst: async () => {} };
        const applied = 'refused' in read ? read : await read.apply(context, about);
        const built = 'refused' in read ? read : await read.suites(context);
        for (const outcome of [applied, built]) {
          const lines = 'refused' in outcome ? outcome.refused : [];
          assert.ok(!('refused' in outcome) || lines.length > 0, JSON.stringify(outcome));
          assert.ok(
            lines.every((line) => line.trim() !== ''),
            JSON.stringify(outcome),
          );
        }
        assert.deepEqual(await ofOthers(trx, project.id), before);
        const own = trx.selectFrom('projects').selectAll().where('id', '=', project.id);
        assert.deepEqual({ ...(await own.executeTakeFirst()), last_event: 0n }, { ...project, last_event: 0n });
        const owners = await trx.selectFrom('hooks').select('id').where('project_id', '=', project.id).execute();
        assert.deepEqual(owners, []);
        throw new Undone();
      });
      await trying.catch((error: unknown) => {
        if (!(error instanceof Undone)) throw error;
      });
    });
    return {
      property: anyProperty(property),
      async close() {
        await configure.close();
        await store.close();
        await removeTree(folder);
      },
    };
  },
};

const settings = (name: string) => ({
  name,
  description: '',
  repository_url: 'git@example.org:team/code.git',
  clone_url: 'git@example.org:team/code.git',
  poll_interval: 0,
  fork_builds: 'without_secrets' as const,
  cancel_superseded: 'none' as const,
  public_badge: 0,
  public: 0,
  config_file: '',
  branch_secrets: 0,
  report_left_out: 1,
  build_twice: 0,
  pull_request_notes: 'off' as const,
  comment_commands: 0,
  pull_request_builds: 'head' as const,
  parameters: '[]',
  most_priority: 0,
  includable: 1,
});

async function twoProjects({ db, ids, observers, vault }: Store) {
  const secrets = { password_hash: null, api_key_hash: null };
  return db.transaction(async (trx) => {
    const context = { db, trx, ids, observers };
    const owner = await insertUser(trx, ids, { email: 'owner@example.org', kind: 'user', secrets });
    const other = await createProject(context, owner, vault, settings('other'));
    const suite = { id: ids.next(), project_id: other.id, name: 'unit', command: 'make', description: '' };
    await trx
      .insertInto('suites')
      .values(suite as never)
      .execute();
    const { id } = await createProject(context, owner, vault, settings('configured'));
    const request = await openRequest(
      context,
      { id, owner_id: owner, config_file: '', build_twice: 0, pull_request_builds: 'head', parameters: '[]' },
      { commitRef: 'main', createdBy: owner },
    );
    const row = trx.selectFrom('projects').selectAll().where('id', '=', id);
    return { project: await row.executeTakeFirstOrThrow(), request };
  });
}
