import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { isForeignKeyViolation, openDatabase, type Database } from '../../src/server/db/open.ts';
import { migrations } from '../../src/server/db/migrations/index.ts';
import { readArchive, writeArchive } from '../../src/cli/operator/backup-archive.ts';
import { createMasterKey, openVault } from '../../src/shared/lib/vault.ts';
import { fillTables } from './rows.ts';
import {
  kinds,
  newInstallation,
  openTables,
  preparedInstallation,
  temporaryFolder,
  type Installation,
} from './support.ts';

async function backupOf(t: TestContext, ...flags: string[]): Promise<{ file: string; source: Installation }> {
  const { installation: source, db } = await preparedInstallation(t, 'sqlite');
  await fillTables(db, openVault(source.keyFile));
  const file = join(temporaryFolder(t), 'backup');
  const { status, stderr } = await source.command('backup', file, ...flags);
  assert.equal(status, 0, stderr);
  return { file, source };
}

/** The same backup with its lines changed, and a right end. */
async function rewrite(t: TestContext, file: string, change: (line: string) => string[]): Promise<string> {
  const changed = join(temporaryFolder(t), 'changed');
  async function* lines(): AsyncGenerator<string> {
    for await (const line of readArchive(file)) yield* change(line);
  }
  await writeArchive(changed, lines());
  return changed;
}

async function assertUntouched({ url, folder }: Installation): Promise<void> {
  const left = existsSync(folder) ? readdirSync(folder) : [];
  assert.deepEqual(
    left.filter((name) => !name.startsWith('headrace.db')),
    [],
  );
  if (!url.startsWith('postgres') && !existsSync(url)) return;
  const db = await openDatabase({ url });
  const tables = await db.read.introspection.getTables();
  await db.close();
  assert.deepEqual(tables, []);
}

for (const kind of kinds) {
  describe(`restore into ${kind}`, () => {
    it('refuses a database that is not empty', async (t) => {
      const { file } = await backupOf(t);
      const installation = await newInstallation(t, kind);
      assert.equal((await installation.command('migrate')).status, 0);
      const refused = await installation.command('restore', file);
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /is not empty\. Restore into/);
      assert.ok(!existsSync(installation.keyFile));
    });

    it('takes back everything when a row does not fit', async (t) => {
      const { file } = await backupOf(t);
      const orphan = '[77777,12345,"main",null,"enqueued",1,1]'; // no such project, no such user
      const broken = await rewrite(t, file, (line) =>
        line.startsWith('{"table":"build_requests"') ? [line, orphan] : [line],
      );
      const installation = await newInstallation(t, kind);
      assert.equal((await installation.command('restore', broken)).status, 1);
      await assertUntouched(installation);
      assert.equal((await installation.command('restore', file)).status, 0, 'a second try with a good file works');
    });

    it('leaves the database as strict as a new one', async (t) => {
      const { file } = await backupOf(t);
      const installation = await newInstallation(t, kind);
      assert.equal((await installation.command('restore', file)).status, 0);
      const { db: plain } = await preparedInstallation(t, kind);
      const db = await openTables(t, installation);
      assert.deepEqual(await definitions(db), await definitions(plain));
      const orphan = {
        id: 5n,
        project_id: 404n,
        name: 'n',
        description: '',
        command: 'c',
        steps: '[]',
        services: '[]',
        tags: '',
        image: '',
        root: null,
        builds_images: 0,
        cache: '[]',
        reports: '[]',
        timeout: 0,
        allow_failure: 0,
        retries: 0,
        retry_on: '[]',
        resume: 0,
        matrix: '[]',
        matrix_include: '[]',
        matrix_exclude: '[]',
        matrix_allow_failure: '[]',
        id_tokens: '[]',
        api_token: 'none' as const,
        cache_save: 'passed' as const,
        reuse: 'off' as const,
        inputs: '[]',
        ignore_variables: '[]',
        reuse_days: 30,
        uses_request: 0,
        annotations: '' as const,
        artifacts: '[]',
        needs: '[]',
        files_from_id: null,
        files_from_name: '',
        files_from: '[]',
        approval: 0,
        approvers: '[]',
        manual: 0,
        concurrency_group: '',
        priority: 0,
        gates_of_file: '',
      };
      await assert.rejects(
        db.transaction((trx) => trx.insertInto('suites').values(orphan).execute()),
        isForeignKeyViolation,
      );
    });

    it('brings a backup of an older program up to this one', async (t) => {
      const { file } = await backupOf(t);
      // A program before the first migration: it had the list of migrations, and nothing on it.
      const header = { headrace_backup: 1, program: '0.0.1', created_at: '', migrations: [], with_keys: true };
      let keep = false;
      const older = await rewrite(t, file, (line) => {
        if (line.startsWith('{"headrace_backup"')) return [JSON.stringify(header)];
        if (line.startsWith('{"file"')) keep = true;
        return keep ? [line] : [];
      });
      const installation = await newInstallation(t, kind);
      const restored = await installation.command('restore', older);
      assert.equal(restored.status, 0, restored.stderr);
      const db = await openTables(t, installation);
      const applied = await db.read.selectFrom('applied_migrations').select('name').orderBy('name').execute();
      assert.deepEqual(
        applied.map((row) => row.name),
        migrations.map((step) => step.name),
      );
    });
  });
}

async function definitions(db: Database): Promise<unknown[]> {
  const query =
    db.kind === 'sqlite'
      ? sql`select name, sql from sqlite_schema order by name`
      : sql`select conname, conrelid::regclass::text as owner, pg_get_constraintdef(oid) as definition, condeferrable, convalidated
            from pg_constraint where connamespace = current_schema()::regnamespace order by conname`;
  return (await query.execute(db.read)).rows;
}

describe('restore', () => {
  it('notices every kind of damage before it changes anything', async (t) => {
    const { file } = await backupOf(t);
    const whole = readFileSync(file);
    const damaged = join(temporaryFolder(t), 'damaged');
    const installation = await newInstallation(t, 'sqlite');
    const flipped = Buffer.from(whole);
    flipped[Math.floor(whole.length / 2)] = (flipped[Math.floor(whole.length / 2)] ?? 0) ^ 1;
    const cases = {
      'a changed byte': flipped,
      'half of it': whole.subarray(0, whole.length / 2),
      'all but its end': whole.subarray(0, -100),
      'nothing at all': Buffer.alloc(0),
      'another file': Buffer.from('PK\x03\x04 something else'),
    };
    for (const [name, bytes] of Object.entries(cases)) {
      writeFileSync(damaged, bytes);
      const refused = await installation.command('restore', damaged);
      assert.equal(refused.status, 1, name);
      assert.match(refused.stderr, /damaged (is not|cannot|was)/, name);
      assert.ok(!existsSync(installation.folder), name);
    }
  });

  it('refuses a file whose lines do not agree with its end', async (t) => {
    const { file } = await backupOf(t);
    const { zstdCompressSync, zstdDecompressSync } = await import('node:zlib');
    const text = zstdDecompressSync(readFileSync(file)).toString();
    const changed = join(temporaryFolder(t), 'changed');
    writeFileSync(changed, zstdCompressSync(Buffer.from(text.replace('a@example.org', 'b@example.org'))));
    const installation = await newInstallation(t, 'sqlite');
    const refused = await installation.command('restore', changed);
    assert.match(refused.stderr, /was changed since it was written/);
    assert.ok(!existsSync(installation.folder));
  });

  it('refuses what a newer program made', async (t) => {
    const { file } = await backupOf(t);
    const headers = [
      { headrace_backup: 3, program: '9.0.0', migrations: [] },
      { headrace_backup: 1, program: '9.0.0', migrations: ['0001-first-version', '9999-from-the-future'] },
    ];
    for (const header of headers) {
      const newer = await rewrite(t, file, (line) =>
        line.startsWith('{"headrace_backup"') ? [JSON.stringify(header)] : [line],
      );
      const installation = await newInstallation(t, 'sqlite');
      const refused = await installation.command('restore', newer);
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /made by a newer headrace \(9\.0\.0\)/);
      assert.ok(!existsSync(installation.folder));
    }
  });

  it('writes no file outside the data folder', async (t) => {
    const { file } = await backupOf(t);
    for (const name of ['../escaped', '/tmp/escaped', 'blobs/../../escaped', 'blobs//x', 'other.txt']) {
      const hostile = await rewrite(t, file, (line) =>
        line === '{"file":"master.key"}' ? [JSON.stringify({ file: name }), '{"bytes":"eA=="}', line] : [line],
      );
      const installation = await newInstallation(t, 'sqlite');
      const refused = await installation.command('restore', hostile);
      assert.equal(refused.status, 1, name);
      assert.match(refused.stderr, /contains a file that no Headrace backup/);
      assert.ok(!existsSync(installation.folder));
    }
  });

  it('keeps a master key that is there', async (t) => {
    const { file } = await backupOf(t);
    const installation = await newInstallation(t, 'sqlite');
    mkdirSync(installation.folder);
    createMasterKey(installation.keyFile);
    const before = readFileSync(installation.keyFile, 'utf8');
    const refused = await installation.command('restore', file);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /master\.key exists already/);
    assert.equal(readFileSync(installation.keyFile, 'utf8'), before);
    assert.ok(!existsSync(installation.url));
  });

  it('wants the right key for a backup without keys', async (t) => {
    const { file, source } = await backupOf(t, '--without-keys');
    const installation = await newInstallation(t, 'sqlite');
    const missing = await installation.command('restore', file);
    assert.match(missing.stderr, /Put the master key that belongs to it at .*master\.key/);

    mkdirSync(installation.folder);
    createMasterKey(installation.keyFile);
    const wrong = await installation.command('restore', file);
    assert.equal(wrong.status, 1);
    assert.match(wrong.stderr, /master key [0-9a-f]+ is missing/);

    copyFileSync(source.keyFile, installation.keyFile);
    const restored = await installation.command('restore', file);
    assert.equal(restored.status, 0, restored.stderr);
  });

  it('puts settings aside that would lead to another database, or that are there already', async (t) => {
    const { source } = await backupOf(t);
    const elsewhere = 'database_url = "postgres://elsewhere/db"\n';
    writeFileSync(join(source.folder, 'headrace.toml'), elsewhere);
    const config = join(dirname(source.folder), 'plain.toml');
    writeFileSync(config, '');
    const plain = join(temporaryFolder(t), 'plain');
    assert.equal((await source.command('backup', plain, '--config', config)).status, 0);
    // `--config` named the settings in effect, so those are the ones that were kept: give the backup the others.
    const leading = await rewrite(t, plain, (line) =>
      line === '{"file":"headrace.toml"}'
        ? [line, JSON.stringify({ bytes: Buffer.from(elsewhere).toString('base64') })]
        : [line],
    );
    const installation = await newInstallation(t, 'sqlite');
    const restored = await installation.command('restore', leading);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(restored.stdout, /headrace\.toml\.restored/);
    assert.ok(!existsSync(join(installation.folder, 'headrace.toml')));
    assert.equal(readFileSync(join(installation.folder, 'headrace.toml.restored'), 'utf8'), elsewhere);

    const second = await newInstallation(t, 'sqlite');
    mkdirSync(second.folder);
    writeFileSync(join(second.folder, 'headrace.toml'), 'log_level = "error"\n');
    assert.equal((await second.command('restore', plain)).status, 0);
    assert.equal(readFileSync(join(second.folder, 'headrace.toml'), 'utf8'), 'log_level = "error"\n');
  });
});
