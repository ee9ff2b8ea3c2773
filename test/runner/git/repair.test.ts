import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { lockFile } from '../../../src/shared/lib/file-lock.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { workplace } from './workplace.ts';
import { longestWait } from '../../support/pauses.ts';

/** The folder of the only mirror. */
async function mirrorIn(dir: string): Promise<string> {
  const [name = ''] = await readdir(join(dir, 'mirrors', '1'));
  return join(dir, 'mirrors', '1', name);
}

async function packsIn(dir: string): Promise<string[]> {
  const folder = join(await mirrorIn(dir), 'repository.git', 'objects', 'pack');
  const names = await readdir(folder);
  return names.map((name) => join(folder, name));
}

async function overPacks(dir: string, end: string, change: (path: string) => Promise<void>): Promise<void> {
  for (const path of (await packsIn(dir)).filter((name) => name.endsWith(end))) {
    await chmod(path, 0o644);
    await change(path);
  }
}

async function scramble(path: string): Promise<void> {
  const bytes = await readFile(path);
  for (let at = 12; at < bytes.length - 20; at += 1) bytes[at] = (bytes[at] ?? 0) ^ 0xff;
  await writeFile(path, bytes);
}

const damages: Record<string, (dir: string) => Promise<void>> = {
  'a scrambled pack': (dir) => overPacks(dir, '.pack', scramble),
  'a pack cut short': (dir) => overPacks(dir, '.pack', (path) => truncate(path, 30)),
  'an empty pack': (dir) => overPacks(dir, '.pack', (path) => truncate(path, 0)),
  'a lost pack': (dir) => overPacks(dir, '.pack', (path) => rm(path)),
  'a lost index': (dir) => overPacks(dir, '.idx', (path) => rm(path)),
  'an empty index': (dir) => overPacks(dir, '.idx', (path) => truncate(path, 0)),
  'no objects at all': async (dir) =>
    rm(join(await mirrorIn(dir), 'repository.git', 'objects'), { recursive: true, force: true }),
  'no HEAD': async (dir) => rm(join(await mirrorIn(dir), 'repository.git', 'HEAD'), { force: true }),
  'an empty HEAD': async (dir) => truncate(join(await mirrorIn(dir), 'repository.git', 'HEAD')),
  'a nonsense configuration': async (dir) =>
    writeFile(join(await mirrorIn(dir), 'repository.git', 'config'), '[core\n'),
  'a nonsense branch': async (dir) => writeFile(join(await mirrorIn(dir), 'repository.git', 'refs/heads/main'), 'x'),
  'an empty folder': async (dir) => {
    const repository = join(await mirrorIn(dir), 'repository.git');
    for (const name of await readdir(repository)) await rm(join(repository, name), { recursive: true });
  },
};

for (const [name, damage] of Object.entries(damages)) {
  test(`a mirror with ${name} is repaired, for a branch, a SHA and a work tree`, async (t) => {
    const { repository, dir, folder, project, fetch, openMirrors } = await workplace(t);
    await repository.commit({ files: { 'a.txt': 'first '.repeat(50) } });
    const sha = await repository.commit({ files: { 'a.txt': 'second '.repeat(50), 'b/c': 'x' } });
    const whole = await fetch('main');
    const mirrors = await openMirrors(); // one that remembers nothing
    await damage(dir);
    assert.deepEqual(await mirrors.fetch({ ...project, commitRef: 'main' }), whole);
    await damage(dir);
    assert.equal((await mirrors.fetch({ ...project, commitRef: sha })).sha, sha);
    await damage(dir);
    await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
    assert.equal(await readFile(join(folder, 'tree', 'a.txt'), 'utf8'), 'second '.repeat(50));
    const after = await repository.commit();
    assert.equal((await mirrors.fetch({ ...project, commitRef: 'main' })).sha, after);
    const mirror = await mirrorIn(dir);
    assert.deepEqual((await readdir(mirror)).sort(), ['lock', 'repository.git']);
    const checked = await run('git', [
      '-c',
      'safe.directory=*',
      '-C',
      join(mirror, 'repository.git'),
      'fsck',
      '--strict',
    ]);
    assert.equal(checked.status, 0, checked.stderr.toString());
  });
}

test('a mirror that is fine is not thrown away when only the host fails', async (t) => {
  const { host, repository, dir, fetch, fetchFails } = await workplace(t);
  await repository.commit();
  await fetch('main');
  const before = await packsIn(dir);
  await host.failWith('words nobody expects');
  await fetchFails('remote_failed', 'main');
  assert.deepEqual(await packsIn(dir), before);
});

async function killedInTheMiddle(t: TestContext) {
  const place = await workplace(t);
  await place.repository.commit();
  await place.fetch('main');
  await place.repository.commit();
  await place.mirrors.close();
  const reached = await place.host.fallSilent();
  const moduleOf = (name: string): string =>
    JSON.stringify(new URL(`../../../src/runner/${name}`, import.meta.url).href);
  const { projectId, repositoryUrl, privateKey } = place.project;
  const options = { dir: place.dir, sshConfig: place.host.sshConfig };
  const request = { projectId, repositoryUrl, privateKey, commitRef: 'main' };
  const code = `
    const { openMirrors } = await import(${moduleOf('git/mirrors.ts')});
    const { openSandboxes } = await import(${moduleOf('sandbox/index.ts')});
    const { request, options } = JSON.parse(await new Response(process.stdin).text());
    const stateDir = options.dir + '/git-sandboxes';
    const sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
    const mirrors = await openMirrors({ ...options, sandboxes });
    await mirrors.fetch({ ...request, writeLog: () => {}, signal: new AbortController().signal });`;
  const runner = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', 'ignore', 'inherit'] });
  t.after(() => runner.kill('SIGKILL'));
  runner.stdin.end(JSON.stringify({ request, options }));
  await reached();
  return { ...place, runner };
}

/** The processes whose command line names the runner's folder. */
async function processesOf(dir: string): Promise<string[]> {
  const listed = (await run('ps', ['axww', '-o', 'pid=,args='])).stdout.toString().split('\n');
  return listed.filter((line) => line.includes(dir) && !line.includes('ps axww'));
}

test('a runner killed in the middle of a fetch leaves no process, no lock and no broken mirror', async (t) => {
  const { host, repository, dir, project, runner, openMirrors, key, log } = await killedInTheMiddle(t);
  const seen = await processesOf(dir);
  assert.ok(seen.some((line) => line.includes('git')) && seen.some((line) => line.includes('ssh')), seen.join('\n'));
  const secret = key.privateKey.split('\n')[2] ?? '';
  for (const pid of (await run('ps', ['axo', 'pid='])).stdout.toString().split('\n').map(Number).filter(Boolean)) {
    const [args, env] = await Promise.all(
      ['cmdline', 'environ'].map((file) => readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')),
    );
    assert.ok(!args?.includes(secret) && !env?.includes(secret), `process ${pid} shows the key`);
  }
  assert.equal((await run('grep', ['-rlF', '-e', secret, dir])).stdout.toString(), '');

  const mirror = await mirrorIn(dir);
  await writeFile(join(mirror, 'repository.git', 'packed-refs.lock'), '');
  await writeFile(join(mirror, 'repository.git', 'refs', 'heads', 'main.lock'), '');
  await writeFile(join(mirror, 'repository.git', 'objects', 'pack', 'tmp_pack_x'), 'x');
  runner.kill('SIGKILL');
  await once(runner, 'close');
  for (const start = Date.now(); (await processesOf(dir)).length > 0; await pause(10)) {
    assert.ok(Date.now() - start < longestWait, (await processesOf(dir)).join('\n'));
  }
  await host.recover();
  const mirrors = await openMirrors();
  const fetched = await mirrors.fetch({ ...project, commitRef: 'main' });
  assert.equal(fetched.sha, await repository.sha('main'));
  assert.doesNotMatch(log(), /damaged/); // leftovers are no damage
  // What the dead one left is swept: one folder and its lock are those of the living.
  assert.equal((await readdir(join(dir, 'run'))).length, 2);
  assert.equal(
    (await packsIn(dir)).some((path) => path.includes('tmp_')),
    false,
  );
  await mirrors.close();
  await assert.rejects(readdir(join(dir, 'run')), { code: 'ENOENT' });
});

test('mirrors are collected when nobody used them for long, and not while somebody does', async (t) => {
  const { repository, dir, fetch, mirrors } = await workplace(t);
  const sha = await repository.commit();
  await fetch('main');
  const day = 24 * 3600 * 1000;
  assert.deepEqual(await mirrors.collect(day), { removed: 0, tidied: 0 });
  const mirror = await mirrorIn(dir);
  const long = new Date(Date.now() - 2 * day);
  await utimes(join(mirror, 'lock'), long, long);
  const held = await lockFile(join(mirror, 'lock'), 'shared');
  assert.deepEqual(await mirrors.collect(day), { removed: 0, tidied: 0 });
  await held.release();
  await fetch(sha); // a use, though nothing is fetched
  assert.deepEqual(await mirrors.collect(day), { removed: 0, tidied: 0 });
  await utimes(join(mirror, 'lock'), long, long);
  assert.deepEqual(await mirrors.collect(day), { removed: 1, tidied: 0 });
  assert.deepEqual(await readdir(join(dir, 'mirrors')), []);
  assert.equal((await fetch(sha)).sha, sha);
});

test('many small packs are put together, and nothing is lost', async (t) => {
  const { repository, dir, fetch, mirrors, fetchFails } = await workplace(t);
  const shas = [];
  for (let count = 0; count < 52; count += 1) {
    shas.push(await repository.commit({ after: null }));
    await fetch('main');
  }
  assert.deepEqual(await mirrors.collect(), { removed: 0, tidied: 1 });
  const packs = (await packsIn(dir)).filter((path) => path.endsWith('.pack'));
  assert.ok(packs.length < 10, `${packs.length} packs`);
  for (const sha of shas) assert.equal((await fetch(sha)).sha, sha);
  await fetchFails('ref_not_found', 'nowhere');
});
