import assert from 'node:assert/strict';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openDatabase } from '../../../src/server/db/open.ts';
import { onEveryDatabase, onOneDatabase, placeFor, settingsFor } from '../../support/databases.ts';
import { commandsWith, untilCreated } from '../../support/process-list.ts';
import { freePort } from '../../support/ports.ts';
import { headrace, serve, startProgram } from '../../support/program.ts';
import { lacks } from '../../support/machine.ts';
import { longestWait } from '../../support/pauses.ts';
import { smallDisk } from '../../support/small-disk.ts';

/** A start that fails has long ended by then, unless it does not end at all. */
const limit = { timeout: longestWait };

describe('a server that starts', () => {
  onEveryDatabase((database) => {
    const place = async () => {
      const { folder, env } = await placeFor(database);
      return { folder: join(folder, 'data'), env };
    };
    /** Starts one that cannot, and answers what it said when it has ended. */
    const fails = async (folder: string, env: Record<string, string>, ...more: string[]): Promise<string> => {
      const started = startProgram(database, ['serve', '--data-dir', folder, ...more], env);
      assert.equal(await started.exited, 1, started.said());
      assert.deepEqual(commandsWith(folder), []);
      return started.said();
    };

    test('leaves a folder alone that another one uses, and says which', limit, async () => {
      const { folder, env } = await place();
      const first = await serve(database, folder, env);
      const inode = lstatSync(join(folder, 'server.sock')).ino;
      // The first one lays its ballast in a moment of its own.
      const filesIn = (): string[] => readdirSync(folder).filter((name) => !name.startsWith('ballast'));
      const files = filesIn();
      const second = startProgram(database, ['serve', '--data-dir', folder, '--port', '0'], env);
      assert.equal(await second.exited, 1);
      const expected = `headrace: ${folder} is the data folder of a running server, process ${first.process.pid}\n`;
      assert.equal(second.said(), expected);
      assert.equal(lstatSync(join(folder, 'server.sock')).ino, inode, 'its door is the same');
      assert.deepEqual(filesIn(), files);
      assert.equal((await first.api.get('/ping')).status, 200);
      // What works beside a server still does.
      const created = await headrace(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder], env);
      assert.equal(created.status, 0, created.stderr.toString());
      assert.equal((await headrace(['migrate', '--data-dir', folder], env)).status, 0);
      const backup = await headrace(['backup', `${folder}.backup`, '--data-dir', folder], env);
      assert.equal(backup.status, 0, backup.stderr.toString());
      // Nobody has to clean up after one that was killed.
      first.process.kill('SIGKILL');
      await first.exited;
      first.api.close();
      const third = await serve(database, folder, env);
      assert.equal((await third.api.get('/ping')).status, 200);
      third.api.close();
    });

    test('ends and takes back what it opened when its port is taken', limit, async () => {
      const { folder, env } = await place();
      const port = await freePort();
      const other = createServer();
      await once(other.listen(port, '127.0.0.1'), 'listening');
      const said = await fails(folder, env, '--port', String(port));
      assert.match(
        said,
        /^headrace: port \d+ of 127\.0\.0\.1 is in use by another program.*--port or HEADRACE_PORT \(EADDRINUSE\)\n$/,
      );
      assert.equal(existsSync(join(folder, 'server.sock')), false);
      other.close();
      const served = await serve(database, folder, env, { port });
      assert.match(served.output, /first user/, 'nobody has seen its credentials before');
      served.api.close();
    });

    test('ends when a setting, a key or a certificate is wrong', limit, async () => {
      const { folder, env } = await place();
      const tooMany = { ...env, HEADRACE_CONNECTIONS: '1000000' };
      assert.match(await fails(folder, tooMany), /^headrace: connections = 1000000 is too many/);
      const broken = { ...env, HEADRACE_TLS_CERT: '/etc/hostname', HEADRACE_TLS_KEY: '/etc/hostname' };
      assert.match(await fails(folder, broken), /^headrace: /);
    });

    test('takes the socket of one that was killed, and not of one that lives', limit, async () => {
      const { folder, env } = await place();
      const { folder: other } = await place();
      const path = join(folder, '..', 'api.sock');
      const plain = { ...env, HEADRACE_TLS: 'off', HEADRACE_HOST: path };
      const args = ['serve', '--data-dir', folder, '--no-runner'];
      const isListening = (started: ReturnType<typeof startProgram>): Promise<void> =>
        untilSaid(started, `listening on unix:${path}\n`);
      const first = startProgram(database, args, plain);
      await isListening(first);
      assert.equal(statSync(path).mode & 0o777, 0o666, 'who may enter the folder may connect');
      const inode = statSync(path).ino;
      assert.match(await fails(other, { HEADRACE_TLS: 'off', HEADRACE_HOST: path }), /EADDRINUSE/);
      assert.equal(statSync(path).ino, inode);
      first.process.kill('SIGKILL');
      await first.exited;
      const second = startProgram(database, args, plain);
      await isListening(second);
      second.process.kill('SIGTERM');
      assert.equal(await second.exited, 0);
    });

    test('keeps what it makes to its owner, whatever it was started from', limit, async () => {
      const { folder, env } = await place();
      const before = process.umask(0);
      try {
        const first = await serve(database, folder, env, { runner: true });
        if (lacks('isolated runner') === false) await untilCreated(folder, 'runner.sock');
        const admin = await headrace(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder], env);
        assert.equal(admin.status, 0);
        const target = join(folder, 'backup');
        assert.equal((await headrace(['backup', target, '--data-dir', folder], env)).status, 0);
        assert.deepEqual(opensToOthers(folder), []);
        first.process.kill('SIGTERM');
        await first.exited;
        first.api.close();
        const restored = join(folder, '..', 'restored');
        const into = await settingsFor(database);
        assert.equal((await headrace(['restore', target, '--data-dir', restored], into)).status, 0);
        assert.deepEqual(opensToOthers(restored), []);
        const second = await serve(database, folder, env);
        assert.deepEqual(opensToOthers(folder), []);
        second.api.close();
      } finally {
        process.umask(before);
      }
    });
  });
});

describe('a server that cannot start', () => {
  onOneDatabase((database) => {
    const place = async () => {
      const { folder, env } = await placeFor(database);
      return { folder: join(folder, 'data'), env };
    };
    /** It says this in a few lines for people, and ends. */
    const refuses = async (folder: string, env: Record<string, string>, words: RegExp[], within: string[] = []) => {
      const started = startProgram(database, ['serve', '--data-dir', folder, '--port', '0'], env, within);
      assert.equal(await started.exited, 1, started.said());
      const lines = started.said().trimEnd().split('\n');
      assert.ok(lines.length <= 4, started.said());
      for (const line of lines) assert.doesNotMatch(line, /^ +at |^\s*\{/, started.said());
      for (const word of [...words, /^headrace: /m, /--data-dir|headrace\.toml/]) assert.match(started.said(), word);
      assert.deepEqual(commandsWith(folder), []);
    };
    /** Nobody has seen the credentials of its first user before. */
    const startsFirst = async (folder: string, env: Record<string, string>): Promise<void> => {
      const served = await serve(database, folder, env);
      served.api.close();
      assert.match(served.output, /first user/);
      served.process.kill('SIGTERM');
      await served.exited;
    };

    test('names a file where the folder was to be, and a setting that cannot be read', limit, async () => {
      const { folder, env } = await place();
      writeFileSync(folder, 'a file');
      await refuses(folder, env, [/is a file/]);
      rmSync(folder);
      mkdirSync(folder, { mode: 0o700 });
      writeFileSync(join(folder, 'headrace.toml'), 'concurrency = = 2\n');
      await refuses(folder, env, [/headrace\.toml/, /line 1|1:/]);
      writeFileSync(join(folder, 'headrace.toml'), 'concurrency = 2\n');
      await startsFirst(folder, env);
    });

    test('leaves the folder of another kind of machine as it is', limit, async () => {
      const { folder, env } = await place();
      await startsFirst(folder, env);
      const mark = join(folder, 'architecture');
      writeFileSync(mark, 'pdp11\n');
      const files = readdirSync(folder);
      await refuses(folder, env, [/pdp11/, new RegExp(process.arch), /headrace backup/]);
      assert.deepEqual(readdirSync(folder), files);
    });

    test('leaves the folder of a newer version as it is', limit, async () => {
      const { folder, env } = await place();
      await startsFirst(folder, env);
      const db = await openDatabase({ url: env.HEADRACE_DATABASE_URL ?? join(folder, 'headrace.db') });
      const newer = { name: '9999-from-the-future', applied_at: 0n };
      await db.transaction((trx) => trx.insertInto('applied_migrations').values(newer).execute());
      await db.close();
      const key = readFileSync(join(folder, 'master.key'), 'utf8');
      await refuses(folder, env, [/newer than this program: it has 9999-from-the-future/, /restore a backup/]);
      assert.equal(readFileSync(join(folder, 'master.key'), 'utf8'), key);
    });

    test('leaves the folder of another user to that user', { ...limit, skip: lacks('root') }, async () => {
      const { folder, env } = await place();
      mkdirSync(folder, { mode: 0o700 });
      const key = join(folder, 'master.key');
      writeFileSync(key, '', { mode: 0o600 });
      chownSync(key, 60_920, 60_920);
      await refuses(folder, env, [/the data folder of the user 60920, and this is the user root/]);
      assert.deepEqual(readdirSync(folder), ['master.key']);
      rmSync(key);
      await startsFirst(folder, env);
    });

    test('says that this user may not write there', { ...limit, skip: lacks('other users') }, async () => {
      const { folder, env } = await place();
      const become = ['setpriv', '--reuid', '60920', '--regid', '60920', '--clear-groups', '--'];
      await refuses(folder, env, [/this user may not write to/], become);
      assert.equal(existsSync(folder), false);
      await startsFirst(folder, env);
    });

    test('says that the file system is read-only', { ...limit, skip: lacks('mounts') }, async () => {
      const { folder, env } = await place();
      mkdirSync(folder, { mode: 0o700 });
      const bind = `mount --bind "${folder}" "${folder}" && mount -o remount,bind,ro "${folder}" && exec "$@"`;
      await refuses(folder, env, [/read-only/], ['unshare', '--mount', 'sh', '-c', bind, 'sh']);
      await startsFirst(folder, env);
    });

    test('says that the disk is full', { ...limit, skip: lacks('mounts') }, async () => {
      const { env } = await place();
      const disk = await smallDisk(database, 64);
      const folder = join(disk.folder, 'data');
      disk.fillTo(0);
      await refuses(folder, env, [/no space is left/]);
      disk.empty();
      await startsFirst(folder, env);
    });
  });
});

async function untilSaid(started: ReturnType<typeof startProgram>, text: string): Promise<void> {
  const ended = started.exited.then((status) => {
    throw new Error(`it ended with ${status}: ${started.said()}`);
  });
  ended.catch(() => {});
  while (!started.said().includes(text)) {
    await Promise.race([once(started.process.stdout ?? started.process, 'data'), ended]);
  }
}

/**
 * What in a folder others than its owner could do anything with, if they could enter it. Nobody can enter the runner's:
 * builds get at what is in there by mounts.
 */
function opensToOthers(folder: string, below = ''): string[] {
  return readdirSync(join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    const mode = lstatSync(join(folder, path)).mode & 0o077;
    if (path === 'runner' && mode === 0) return [];
    const found = mode === 0 ? [] : [`${path} ${mode.toString(8)}`];
    return entry.isDirectory() ? [...found, ...opensToOthers(folder, path)] : found;
  });
}
