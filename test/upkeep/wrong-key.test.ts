import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openDatabase } from '../../src/server/db/open.ts';
import { createMasterKey, masterKeyNumbers } from '../../src/shared/lib/vault.ts';
import type { Answer, Credentials } from '../support/client.ts';
import { onOneDatabase, temporaryFolder, whyNoPostgres } from '../support/databases.ts';
import { command } from '../support/command.ts';
import { newDatabase } from '../support/postgres.ts';
import { serve, startProgram, type Serving } from '../support/program.ts';
import { longestWait } from '../support/pauses.ts';

const limit = { timeout: longestWait };
const refusal =
  /^headrace: the master key at .*master\.key does not belong to this database: .*Restore the right file there/;
const absence =
  /^headrace: there is no master key at .*master\.key, and this database contains values sealed with key /;

describe('a master key', () => {
  onOneDatabase((database) => {
    const place = async () => {
      const folder = join(temporaryFolder(), 'data');
      database.afterwards(() => rmSync(join(folder, '..'), { recursive: true, force: true }));
      const url = database.kind === 'postgres' ? await database.emptyUrl() : join(folder, 'headrace.db');
      const env: Record<string, string> = database.kind === 'postgres' ? { HEADRACE_DATABASE_URL: url } : {};
      return { folder, env, url, key: join(folder, 'master.key') };
    };
    type Place = Awaited<ReturnType<typeof place>>;
    const stop = async ({ api, process, exited }: Serving): Promise<void> => {
      api.close();
      process.kill('SIGTERM');
      await exited;
    };
    const signedIn = ({ output }: Serving): Credentials => ({
      email: 'admin@localhost',
      api_key: /API key\s+(\S+)/.exec(output)?.[1] ?? '',
    });
    const fails = async ({ folder, env }: Pick<Place, 'folder' | 'env'>): Promise<string> => {
      const started = startProgram(database, ['serve', '--data-dir', folder, '--port', '0', '--no-runner'], env);
      assert.equal(await started.exited, 1, started.said());
      return started.said();
    };
    const project = { name: 'app', repository_url: 'git@example.org:app.git' };
    const keyOf = (answer: Answer): unknown => answer.record.ssh_public_key;

    test('that is gone is not replaced, and one that is wrong is not used', limit, async () => {
      const here = await place();
      const { folder, env, key } = here;
      const first = await serve(database, folder, env);
      const as = signedIn(first);
      const made = await first.api.post('/projects', { as, form: project });
      await stop(first);
      const [number = ''] = masterKeyNumbers(key);

      renameSync(key, `${key}.aside`);
      const before = readdirSync(folder).toSorted();
      const said = await fails(here);
      assert.match(said, absence);
      assert.ok(said.includes(number));
      assert.deepEqual(readdirSync(folder).toSorted(), before, 'nothing is made');
      const admin = await command(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder], env);
      assert.equal(admin.status, 1);
      assert.match(admin.stderr.toString(), absence);

      createMasterKey(key);
      const wrong = readFileSync(key, 'utf8');
      assert.match(await fails(here), refusal);
      for (const words of [
        ['admin', 'master-key', 'rotate'],
        ['backup', join(folder, '..', 'backup')],
      ]) {
        const refused = await command([...words, '--data-dir', folder], env);
        assert.deepEqual([refused.status, refused.stdout.toString()], [1, ''], words.join(' '));
        assert.match(refused.stderr.toString(), refusal);
      }
      assert.ok(!existsSync(join(folder, '..', 'backup')));
      assert.equal(readFileSync(key, 'utf8'), wrong, 'no key was added to it');

      // The same number with another secret is another key.
      writeFileSync(key, `${number}:${Buffer.alloc(32, 7).toString('base64')}\n`);
      assert.match(await fails(here), refusal);

      renameSync(`${key}.aside`, key);
      const again = await serve(database, folder, env);
      const path = `/projects/${made.record.id}`;
      assert.equal(keyOf(await again.api.get(path, { as })), keyOf(made));
      await stop(again);
    });

    test('is known by what a database from before holds', limit, async () => {
      const here = await place();
      const first = await serve(database, here.folder, here.env);
      const as = signedIn(first);
      const { id } = (await first.api.post('/projects', { as, form: project })).record;
      await stop(first);
      await takeCanaryAway(here.url);
      renameSync(here.key, `${here.key}.aside`);
      assert.match(await fails(here), absence);
      createMasterKey(here.key);
      assert.match(await fails(here), /projects\.ssh_public_key:\d+ cannot be opened: master key [0-9a-f]+ is missing/);
      renameSync(`${here.key}.aside`, here.key);
      const second = await serve(database, here.folder, here.env);
      assert.equal((await second.api.get(`/projects/${id}`, { as })).status, 200);
      // From now on it has a canary, whatever else goes.
      assert.equal((await second.api.ask('DELETE', `/projects/${id}`, { as })).status, 200);
      await stop(second);
      rmSync(here.key);
      assert.match(await fails(here), absence);
    });

    test('of a backup is the one of what is restored, with a canary or without', limit, async () => {
      for (const isOld of [false, true]) {
        const here = await place();
        const first = await serve(database, here.folder, here.env);
        const as = signedIn(first);
        const made = await first.api.post('/projects', { as, form: project });
        await stop(first);
        if (isOld) await takeCanaryAway(here.url);
        const backup = join(here.folder, '..', 'backup');
        assert.equal((await command(['backup', backup, '--data-dir', here.folder], here.env)).status, 0);
        const there = await place();
        const restored = await command(['restore', backup, '--data-dir', there.folder], there.env);
        assert.equal(restored.status, 0, restored.stderr.toString());
        const second = await serve(database, there.folder, there.env);
        assert.equal(keyOf(await second.api.get(`/projects/${made.record.id}`, { as })), keyOf(made));
        await stop(second);
        rmSync(there.key);
        assert.match(await fails(there), absence);
      }
    });

    test('that is taken away or exchanged while a server runs is told by /healthz', limit, async () => {
      const { folder, env, key } = await place();
      const server = await serve(database, folder, env);
      const health = async (): Promise<unknown[]> => {
        const { status, body } = await server.api.get('/healthz');
        return [status, (body as { reason?: string }).reason];
      };
      const until = async (status: number): Promise<unknown[]> => {
        for (;;) {
          const seen = await health();
          if (seen[0] === status) return seen;
          await new Promise((resolve) => setTimeout(resolve, 50)); // it looks once a second
        }
      };
      await until(200);
      renameSync(key, `${key}.aside`);
      assert.deepEqual(await until(503), [503, 'the master key does not open the sealed values of the database']);
      renameSync(`${key}.aside`, key);
      await until(200);
      const other = `${key}.other`;
      createMasterKey(other);
      renameSync(key, `${key}.aside`);
      renameSync(other, key);
      assert.deepEqual(await until(503), [503, 'the master key does not open the sealed values of the database']);
      renameSync(`${key}.aside`, key);
      await until(200);
      const rotated = await command(['admin', 'master-key', 'rotate', '--data-dir', folder], env);
      assert.equal(rotated.status, 0, rotated.stderr.toString());
      await new Promise((resolve) => setTimeout(resolve, 1100));
      assert.equal((await health())[0], 200);
      await stop(server);
    });
  });

  const skip = whyNoPostgres();
  test('is made once by servers that start together on an empty PostgreSQL', { ...limit, skip }, async (t) => {
    const cleanUps: (() => void)[] = [];
    t.after(() => cleanUps.forEach((cleanUp) => cleanUp()));
    const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(() => void cleanUp());
    const root = temporaryFolder();
    cleanUps.push(() => rmSync(root, { recursive: true, force: true }));
    const url = await newDatabase(process.env.TEST_POSTGRES_URL ?? '');
    const folders = Array.from({ length: 4 }, (_, at) => join(root, `data-${at}`));
    folders.forEach((folder) => mkdirSync(folder));
    const started = folders.map((folder) =>
      startProgram({ afterwards }, ['serve', '--data-dir', folder, '--port', '0', '--no-runner'], {
        HEADRACE_DATABASE_URL: url,
      }),
    );
    const ends = await Promise.all(
      started.map(async (one) => {
        const listens = new Promise<string>((resolve) => {
          one.process.stdout?.on('data', () => /^listening on/m.test(one.said()) && resolve('listens'));
        });
        return Promise.race([listens, one.exited.then(String)]);
      }),
    );
    assert.deepEqual(ends.toSorted(), ['1', '1', '1', 'listens'], started.map((one) => one.said()).join('\n'));
    assert.equal(folders.filter((folder) => existsSync(join(folder, 'master.key'))).length, 1);
    const winner = ends.indexOf('listens');
    for (const [at, one] of started.entries()) if (at !== winner) assert.match(one.said(), absence);
    // With a copy of the key, another one joins in.
    const [other = ''] = folders.filter((_, at) => at !== winner);
    copyFileSync(join(folders[winner] ?? '', 'master.key'), join(other, 'master.key'));
    const second = await serve({ afterwards }, other, { HEADRACE_DATABASE_URL: url });
    second.api.close();
    for (const one of [started[winner]?.process, second.process]) one?.kill('SIGTERM');
    await Promise.all([started[winner]?.exited, second.exited]);
  });
});

/** As the program before the one with canaries left it. */
async function takeCanaryAway(url: string): Promise<void> {
  const db = await openDatabase({ url });
  await db.transaction((trx) => trx.deleteFrom('master_key_canary').execute());
  await db.close();
}
