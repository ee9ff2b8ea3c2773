import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { chmod, mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../../src/shared/lib/processes.ts';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import { openMirrors } from '../../../src/runner/git/mirrors.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import { longestTurn } from '../../support/event-loop.ts';
import { commandsWith } from '../../support/process-list.ts';
import { longestWait } from '../../support/pauses.ts';
import { createRepository } from '../../support/repository.ts';
import type { GitHost } from '../../support/sshd.ts';
import { bomb } from './malice.ts';
import { workplace, type Workplace } from './workplace.ts';
import { lacks } from '../../support/machine.ts';

const megabyte = 1024 * 1024;
/** Longer than any end takes, also on a busy machine, and much shorter than what would otherwise happen. */
const soonMs = 60_000;

/** Lets people in and then runs this. */
async function serve(host: GitHost, script: string): Promise<void> {
  const path = join(dirname(host.folder), 'serve');
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

/** Every file that the runner keeps of what it fetched and checked out, but for whole repositories. */
function leftOf({ folder, dir }: Pick<Workplace, 'folder' | 'dir'>): string[] {
  const names = readdirSync(join(dir, 'mirrors'), { recursive: true, encoding: 'utf8' });
  const half = names.filter((name) => /tmp_|\.lock$|\.keep$|writing$|fresh\.git$|broken\.git$/.test(name));
  return [...half, ...readdirSync(folder).filter((name) => name !== 'runner')];
}

async function until(isIt: () => boolean): Promise<void> {
  for (const start = Date.now(); !isIt(); await pause(5))
    assert.ok(Date.now() - start < longestWait, 'it did not come');
}

/** Calls the work off when something has happened, and expects its end soon. */
async function calledOff(work: (signal: AbortSignal) => Promise<unknown>, when: () => boolean): Promise<void> {
  const controller = new AbortController();
  const working = work(controller.signal);
  working.catch(() => {});
  await until(when);
  const startedAt = Date.now();
  controller.abort(new Error('called off'));
  await assert.rejects(working, /called off/);
  assert.ok(Date.now() - startedAt < soonMs, `it took ${Date.now() - startedAt} ms`);
}

test('a small repository that would take all memory to look at is refused in words', async (t) => {
  const place = await workplace(t, { memoryBytes: 256 * megabyte });
  const sha = await bomb(place.repository, 9, 10, 'x');
  assert.match(await place.fetchFails('out_of_memory', 'main'), /its memory limit of 256 MB/);
  assert.deepEqual(leftOf(place), []);
  const isLooking = (): boolean => commandsWith(`\0diff-tree\0`).some((pid) => commandsWith(sha).includes(pid));
  const patient = await place.openMirrors({ memoryBytes: 4096 * megabyte });
  await calledOff((signal) => patient.fetch({ ...place.project, commitRef: sha, signal }), isLooking);
  assert.deepEqual(
    commandsWith(`\0diff-tree\0`).filter((pid) => commandsWith(sha).includes(pid)),
    [],
  );
});

test('a small repository that would fill the disk is refused in words, and nothing of it stays [promise: git-limits]', async (t) => {
  const place = await workplace(t, { checkoutBytes: 16 * megabyte });
  const { mirrors, project, folder, log } = place;
  const sha = await bomb(place.repository, 5, 10, 'x'.repeat(64 * 1024));
  const into = join(folder, 'tree');
  await assert.rejects(mirrors.checkout({ ...project, sha, into }), { kind: 'checkout_too_large' });
  assert.match(log(), /the checkout limit of 16 MB/);
  assert.deepEqual(leftOf(place), []);
  const large = await place.openMirrors({ checkoutBytes: 1024 ** 4 });
  const hasBegun = (): boolean => {
    try {
      return readdirSync(`${into}.part/trees/0/a`).length > 0;
    } catch {
      return false;
    }
  };
  await calledOff((signal) => large.checkout({ ...project, sha, into, signal }), hasBegun);
  assert.deepEqual(leftOf(place), []);
});

test('a commit with just as much as is allowed is checked out', async (t) => {
  const { repository, mirrors, project, folder } = await workplace(t, { checkoutBytes: 16 * megabyte });
  const sha = await repository.commit({ files: { large: 'x'.repeat(14 * megabyte) } });
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  assert.deepEqual((await readdir(join(folder, 'tree'))).toSorted(), ['.git', 'large']);
});

test('a remote that never comes to an end is left when its time is up', async (t) => {
  const place = await workplace(t);
  const { host, repository, fetch, project } = place;
  const sha = await repository.commit();
  await fetch('main');
  await serve(host, 'while :; do echo patience >&2; sleep 0.1; done');
  // What is to succeed has all its time.
  const hasty = await place.openMirrors({ timeoutMs: 2000 });
  await assert.rejects(hasty.fetch({ ...project, commitRef: 'main' }), { kind: 'fetch_timed_out' });
  assert.match(place.log(), /its time limit of 2 s/);
  assert.deepEqual(leftOf(place), []);
  await calledOff(
    (signal) => fetch('main', { signal }),
    () => place.log().includes('patience'),
  );
  await host.recover();
  assert.equal((await fetch('main')).sha, sha);
  assert.deepEqual(leftOf(place), []);
});

test('data of a failed transfer does not stay', async (t) => {
  const place = await workplace(t);
  const { host, repository, fetch, dir } = place;
  await repository.commit();
  await fetch('main');
  await repository.commit({ files: { large: randomBytes(megabyte) } });
  // The real thing, but the pack gets stuck: what git has of it is in a temporary file by then.
  const hook = join(dirname(host.folder), 'stuck');
  await writeFile(hook, '#!/bin/sh\n"$@" | { head -c 200000; exec sleep 1000; }\n', { mode: 0o755 });
  const setting = `GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=uploadpack.packObjectsHook GIT_CONFIG_VALUE_0='${hook}'`;
  await serve(host, `cd '${host.folder}'\n${setting} exec git-shell -c "$SSH_ORIGINAL_COMMAND"`);
  const isStuck = (): boolean =>
    readdirSync(join(dir, 'mirrors'), { recursive: true, encoding: 'utf8' }).some((name) => name.includes('tmp_pack'));
  await calledOff((signal) => fetch('main', { signal }), isStuck);
  assert.deepEqual(leftOf(place), []);
  await host.recover();
  assert.equal((await fetch('main')).sha, await repository.sha('main'));
});

async function flooded(t: TestContext, megabytes: number, then: string): Promise<Workplace> {
  const place = await workplace(t);
  await place.repository.commit();
  await serve(place.host, `head -c ${megabytes * megabyte} /dev/zero | tr '\\\\0' x >&2\n${then}`);
  return place;
}

test('a remote that floods the log in one line holds nothing up', async (t) => {
  const { fetch } = await flooded(t, 32, 'exit 3');
  let told = 0;
  const writeLog = (text: Buffer | string): void => void (told += text.length);
  const { longestMs } = await longestTurn(() => assert.rejects(fetch('main', { writeLog }), { kind: 'remote_failed' }));
  assert.ok(told > 32 * megabyte, 'all of it is told');
  assert.ok(longestMs < 5000, `nothing else was done for ${longestMs} ms`);
});

test('a remote is read no faster than the log takes it', async (t) => {
  const { host, fetch, repository } = await flooded(t, 256, 'touch flooded; exit 3');
  const other = await createRepository(join(host.folder, 'other.git'));
  await other.commit();
  let told = 0;
  const never = Promise.withResolvers<void>();
  const writeLog = async (text: Buffer | string): Promise<void> => {
    told += text.length;
    if (told > 1000) await never.promise;
  };
  const before = process.memoryUsage().rss;
  await calledOff(
    (signal) => fetch('main', { signal, writeLog }),
    () => told > 1000,
  );
  assert.ok(told < 4 * megabyte, `${told} bytes were taken`);
  assert.ok(process.memoryUsage().rss - before < 128 * megabyte);
  await host.recover();
  assert.equal((await fetch('main')).sha, await repository.sha('main'));
});

test(
  'a repository that the disk has no room for is refused in words, and what was there stays',
  { skip: lacks('mounts') },
  async (t) => {
    const { host, repository, project } = await workplace(t);
    const disk = await mkdtemp(join(tmpdir(), 'git-small-disk-'));
    assert.equal((await run('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk])).status, 0);
    const sandboxes = await openSandboxes({
      stateDir: join(disk, 'sandboxes'),
      network: 'none',
      isolation: 'required',
      log: () => {},
    });
    const dir = join(disk, 'git');
    const mirrors = await openMirrors({ dir, sandboxes, sshConfig: host.sshConfig });
    try {
      let said = '';
      const request = {
        ...project,
        commitRef: 'main',
        writeLog: (text: Buffer | string) => void (said += text.toString()),
      };
      const sha = await repository.commit();
      await mirrors.fetch(request);
      await repository.commit({ files: { large: randomBytes(40 * megabyte) } });
      await assert.rejects(mirrors.fetch(request), { kind: 'disk_full' });
      assert.match(said, /The disk of this runner is too small/);
      assert.deepEqual(leftOf({ folder: disk, dir }), ['git', 'sandboxes']);
      await repository.overwrite('main', sha);
      assert.equal((await mirrors.fetch(request)).sha, sha);
    } finally {
      await sandboxes.close();
      await mirrors.close();
      await run('umount', [disk]);
      await removeTree(disk);
    }
  },
);
