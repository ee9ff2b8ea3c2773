import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import type { Database } from '../../src/server/db/open.ts';
import { openSnapshot } from '../../src/server/db/snapshot.ts';
import { lockUpkeep } from '../../src/server/db/upkeep-lock.ts';
import { readArchive } from '../../src/cli/operator/backup-archive.ts';
import { openVault } from '../../src/shared/lib/vault.ts';
import { everyRow, fillTables } from './rows.ts';
import { kinds, newInstallation, openTables, preparedInstallation, temporaryFolder } from './support.ts';

/** What the audit log has beside what the tables were filled with. */
async function newActions(db: Database): Promise<string[]> {
  const entries = await db.read.selectFrom('audit_entries').select('action').orderBy('id').execute();
  return entries.map(({ action }) => action).filter((action) => action !== 'suite.updated');
}

for (const from of kinds) {
  for (const to of kinds) {
    describe(`a backup from ${from} restored into ${to}`, () => {
      it('brings back every row, the keys, the settings and the blobs', async (t) => {
        const { installation: old, db } = await preparedInstallation(t, from);
        await fillTables(db, openVault(old.keyFile));
        const blob = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * at) % 256));
        mkdirSync(join(old.folder, 'blobs', 'ab'), { recursive: true });
        mkdirSync(join(old.folder, 'tls'));
        writeFileSync(join(old.folder, 'blobs', 'ab', 'abcd'), blob);
        writeFileSync(join(old.folder, 'blobs', 'empty'), '');
        writeFileSync(join(old.folder, 'tls', 'key.pem'), 'a key');
        writeFileSync(join(old.folder, 'tls', 'cert.pem'), 'a certificate');
        writeFileSync(join(old.folder, 'headrace.toml'), 'log_level = "warn"\n');
        const file = join(temporaryFolder(t), 'backup');

        const before = await everyRow(db);
        const made = await old.command('backup', file);
        assert.equal(made.status, 0, made.stderr);
        assert.deepEqual(await newActions(db), ['backup.created'], 'and it is written down where it was made');
        assert.match(made.stdout, /rows: 1\d\d\d, tables: \d+, files: 6/);
        assert.equal(statSync(file).mode & 0o777, 0o600);

        const fresh = await newInstallation(t, to);
        const restored = await fresh.command('restore', file);
        assert.equal(restored.status, 0, restored.stderr);
        const restoredDb = await openTables(t, fresh);
        assert.deepEqual(await newActions(restoredDb), ['backup.restored']);
        const rows = await everyRow(restoredDb);
        const own = rows.audit_entries?.filter((row) => !row.includes('backup.restored')) ?? [];
        assert.deepEqual({ ...rows, audit_entries: own }, before);
        for (const [table, tested] of Object.entries(before)) {
          assert.notEqual(tested.length, 0, `no row tests ${table}`);
        }
        await assert.rejects(
          restoredDb.transaction((trx) => trx.deleteFrom('audit_entries').execute()),
          /audit entries are never changed/,
        );

        const content = (path: string): Buffer => readFileSync(join(fresh.folder, path));
        assert.deepEqual(content('blobs/ab/abcd'), blob);
        assert.equal(content('blobs/empty').length, 0);
        assert.equal(content('tls/key.pem').toString(), 'a key');
        assert.equal(content('headrace.toml').toString(), 'log_level = "warn"\n');
        assert.deepEqual(content('master.key'), readFileSync(old.keyFile));
        assert.equal(statSync(join(fresh.folder, 'master.key')).mode & 0o777, 0o600);
        assert.equal(statSync(fresh.folder).mode & 0o777, 0o700);
      });
    });
  }
}

for (const kind of kinds) {
  describe(`backup on ${kind}`, () => {
    it('holds every table that the database has, also one that this program does not know', async (t) => {
      const { installation, db } = await preparedInstallation(t, kind);
      await db.transaction((trx) => sql`create table added_later (id bigint primary key)`.execute(trx));
      const live = (await db.read.introspection.getTables()).map((table) => table.name);
      const file = join(temporaryFolder(t), 'backup');
      assert.equal((await installation.command('backup', file)).status, 0);
      const dumped: string[] = [];
      for await (const line of readArchive(file)) {
        const table = /^\{"table":"([^"]+)"/.exec(line)?.[1];
        if (table !== undefined) dumped.push(table);
      }
      assert.deepEqual(dumped.toSorted(), live.toSorted());
      assert.ok(dumped.includes('added_later'));
    });

    it('shows one moment of the database while others write', async (t) => {
      const { installation, db } = await preparedInstallation(t, kind);
      await fillTables(db, openVault(installation.keyFile));
      const snapshot = await openSnapshot(installation.url);
      const suites = snapshot.tables.find((table) => table.name === 'suites');
      assert.ok(suites);
      await db.transaction(async (trx) => {
        await trx.deleteFrom('suite_dependencies').execute();
        await trx.updateTable('deploy_strategies').set({ suite_id: null }).execute();
        await trx.deleteFrom('suites').execute();
      });
      const seen: unknown[][] = [];
      for await (const rows of snapshot.rows(suites)) seen.push(...rows);
      await snapshot.close();
      assert.equal(seen.length, 1);
      assert.equal((await db.read.selectFrom('suites').select('id').execute()).length, 0);
    });

    it('leaves the keys out when told to', async (t) => {
      const { installation, db } = await preparedInstallation(t, kind);
      await fillTables(db, openVault(installation.keyFile));
      const file = join(temporaryFolder(t), 'backup');
      const made = await installation.command('backup', file, '--without-keys');
      assert.equal(made.status, 0, made.stderr);
      const [, secret = 'unread'] = /:(.+)\n/.exec(readFileSync(installation.keyFile, 'utf8')) ?? [];
      for await (const line of readArchive(file)) {
        assert.ok(!line.includes('"file":"master.key"'));
        const bytes = /"bytes":"([^"]*)"/.exec(line)?.[1] ?? '';
        assert.ok(!Buffer.from(bytes, 'base64').toString().includes(secret));
      }
    });

    it('waits for nobody: beside a rotation or another backup it says so', async (t) => {
      const { installation } = await preparedInstallation(t, kind);
      const lock = await lockUpkeep(installation.url);
      const file = join(temporaryFolder(t), 'backup');
      const refused = await installation.command('backup', file);
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /try again when it has finished/);
      assert.equal((await installation.command('admin', 'master-key', 'rotate')).status, 1);
      await lock.release();
      assert.equal((await installation.command('backup', file)).status, 0);
    });
  });
}

describe('backup', () => {
  it('never replaces a file', async (t) => {
    const { installation } = await preparedInstallation(t, 'sqlite');
    const before = readFileSync(installation.url);
    const refused = await installation.command('backup', installation.url);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /already exists/);
    assert.deepEqual(readFileSync(installation.url).subarray(0, 100), before.subarray(0, 100));
  });

  it('makes no database where there is none', async (t) => {
    const installation = await newInstallation(t, 'sqlite');
    const refused = await installation.command('backup', join(temporaryFolder(t), 'backup'));
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /there is no database at/);
    assert.ok(!existsSync(installation.folder));
  });

  it('asks for the name of a file', async (t) => {
    const installation = await newInstallation(t, 'sqlite');
    const refused = await installation.command('backup', '--without-keys');
    assert.equal(refused.status, 2);
    assert.match(refused.stderr, /backup FILE \[--without-keys\]/);
  });
});

describe('a backup on the disk of the data', () => {
  it('leaves the reserve alone, and nothing behind', async (t) => {
    const { installation } = await preparedInstallation(t, 'sqlite');
    writeFileSync(join(installation.folder, 'headrace.toml'), 'disk_reserve = 1000000000\n');
    const file = join(installation.folder, 'backup');
    const { status, stderr } = await installation.command('backup', file);
    assert.deepEqual([status, stderr.trim()], [1, 'headrace: the disk is full']);
    assert.deepEqual([existsSync(file), existsSync(`${file}.part`)], [false, false]);
  });
});
