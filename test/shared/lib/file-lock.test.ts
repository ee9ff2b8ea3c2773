import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import test, { type TestContext } from 'node:test';
import { lockFile, tryLockFile } from '../../../src/shared/lib/file-lock.ts';
import { run } from '../../../src/shared/lib/processes.ts';

async function lockPath(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lock-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'deep', 'lock');
}

async function timesOpen(path: string): Promise<number> {
  const open = await readdir('/proc/self/fd');
  const targets = await Promise.all(open.map((fd) => readlink(join('/proc/self/fd', fd)).catch(() => '')));
  return targets.filter((target) => target === path).length;
}

test('one holds a lock at a time, also within one process', async (t) => {
  const path = await lockPath(t);
  const first = await lockFile(path, 'exclusive');
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  assert.equal(await tryLockFile(path, 'shared'), undefined);
  const order: string[] = [];
  const second = lockFile(path, 'exclusive').then((lock) => {
    order.push('second');
    return lock;
  });
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  order.push('released');
  await first.release();
  await (await second).release();
  assert.deepEqual(order, ['released', 'second']);
});

test('many hold a shared lock together', async (t) => {
  const path = await lockPath(t);
  const locks = await Promise.all([1, 2, 3].map(() => lockFile(path, 'shared')));
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  for (const lock of locks) await lock.release();
  const after = await tryLockFile(path, 'exclusive');
  assert.ok(after);
  await after.release();
});

test('another process respects the lock', async (t) => {
  const path = await lockPath(t);
  const lock = await lockFile(path, 'exclusive');
  assert.equal((await run('flock', ['-n', path, 'true'])).status, 1);
  await lock.release();
  assert.equal((await run('flock', ['-n', path, 'true'])).status, 0);
});

test('the lock of a killed process is free', async (t) => {
  const path = await lockPath(t);
  const module = new URL('../../../src/shared/lib/file-lock.ts', import.meta.url).href;
  const code = `const { lockFile } = await import(${JSON.stringify(module)}); globalThis.lock = await lockFile(${JSON.stringify(path)}, 'exclusive'); console.log('held'); setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => holder.kill('SIGKILL'));
  await once(holder.stdout, 'data');
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  holder.kill('SIGKILL');
  await once(holder, 'close');
  const lock = await tryLockFile(path, 'exclusive');
  assert.ok(lock);
  await lock.release();
});

test('a child that was handed the lock keeps it', async (t) => {
  const path = await lockPath(t);
  const lock = await lockFile(path, 'exclusive');
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore', lock.fd] });
  await once(child, 'spawn');
  await lock.release();
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  child.stdin?.end();
  await once(child, 'close');
  const after = await tryLockFile(path, 'exclusive');
  assert.ok(after);
  await after.release();
});

test('who waits can give up', async (t) => {
  const path = await lockPath(t);
  const lock = await lockFile(path, 'exclusive');
  const controller = new AbortController();
  const waiting = lockFile(path, 'exclusive', controller.signal);
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await lock.release();
});

test('a lock whose file was removed by its last holder is not taken for a lock', async (t) => {
  const path = await lockPath(t);
  const first = await lockFile(path, 'exclusive');
  const waiting = lockFile(path, 'exclusive');
  while ((await timesOpen(path)) < 2) await setImmediate();
  await rm(path);
  await first.release();
  const second = await waiting;
  assert.equal(await tryLockFile(path, 'exclusive'), undefined);
  await second.release();
});
