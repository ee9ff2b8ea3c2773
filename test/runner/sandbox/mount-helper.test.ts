import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { untilGone } from '../../../src/runner/sandbox/descendants.ts';
import { openMountHelper, type MountHelper } from '../../../src/runner/sandbox/mount-helper.ts';
import { isRoot } from './support.ts';
import { lacks } from '../../support/machine.ts';

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`)
    .flatMap((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' '))
    .filter((child) => child !== '')
    .map(Number);

const mountNamespacesHeldBy = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`)
    .map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    .filter((target) => target.startsWith('mnt:'));

async function openHelper(
  t: TestContext,
  onLost: (error: Error) => void = assert.ifError,
): Promise<{ helper: MountHelper; pid: number }> {
  const others = childrenOf(process.pid);
  const helper = await openMountHelper({ onLost });
  t.after(() => helper.close());
  const [pid = 0] = childrenOf(process.pid).filter((child) => !others.includes(child));
  return { helper, pid };
}

const openRun = (helper: MountHelper): ReturnType<MountHelper['open']> =>
  helper.open({
    ownNetwork: false,
    entrances: [],
    as: { uid: isRoot ? 65_534 : -1, gid: isRoot ? 65_534 : -1 },
    descriptors: { 0: { file: '/dev/null' } },
    command: ['sleep', '600'],
  });

test('a mount helper that was killed is told of', async (t) => {
  const lost = Promise.withResolvers<Error>();
  const { helper, pid } = await openHelper(t, lost.resolve);
  const run = openRun(helper);
  const { pid: started } = await run.start();
  process.kill(pid, 'SIGKILL');
  await run.close();
  assert.match((await lost.promise).message, /the mount helper ended \(SIGKILL\)/);
  await assert.rejects(openRun(helper).start(), /the mount helper ended/);
  await untilGone(started);
});

test('a run that is over leaves no namespaces, and no folder with little in it', async (t) => {
  const { helper, pid } = await openHelper(t);
  await helper.base({
    etc: '/etc',
    programs: ['usr'],
    directories: ['/proc'],
    links: {},
    own: { tmp: { mode: 0o755 } },
  });
  const folders = await Promise.all(Array.from({ length: 5 }, () => mkdtemp(join(tmpdir(), 'headrace-helper-'))));
  t.after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));
  const [large = ''] = folders;
  for (let count = 0; count < 100; count += 1) await mkdir(join(large, `${count}`));
  const runs = await Promise.all(
    folders.map(async (folder) => {
      const run = openRun(helper);
      await run.furnish(folder, { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
      await run.start();
      return run;
    }),
  );
  const opened = await Promise.all(runs.map((run) => run.paths));
  const namespaces = opened.map(({ mount }) => mount);
  assert.ok(namespaces.every((path) => existsSync(path)));
  await Promise.all(runs.map((run) => run.close()));
  assert.deepEqual(
    folders.filter((folder) => existsSync(folder)),
    [large],
  );
  assert.ok(namespaces.every((path) => !existsSync(path)));
  assert.deepEqual([...new Set(mountNamespacesHeldBy(pid))], [readlinkSync(`/proc/${pid}/ns/mnt`)]);
  assert.deepEqual(childrenOf(pid), []);
});

test(
  'no two runs have the same range of IDs, also of two runners, and it is said when all are in use [promise: build-user]',
  { skip: lacks('root') },
  async (t) => {
    const ids = { files: 1_913_000_000, first: 1_800_000_000, count: 2 };
    const [one, other] = [await openHelper(t), await openHelper(t, () => {})];
    const openRange = async (helper: MountHelper) => {
      const command: [string, ...string[]] = ['sleep', '600'];
      const as = { uid: 7, gid: 8 };
      const run = helper.open({ ownNetwork: false, entrances: [], ids, as, descriptors: {}, command });
      const { pid } = await run.start().catch(async (error: unknown) => {
        await run.close();
        throw error;
      });
      const { uid } = await run.user;
      assert.match(readFileSync(`/proc/${pid}/uid_map`, 'utf8'), new RegExp(`^ +0 +${uid - 7} +65536\n$`));
      return { pid, first: uid - 7, close: () => run.close() };
    };
    const isFull = /every range of user IDs on this machine is in use/;
    const [mine, theirs] = [await openRange(one.helper), await openRange(other.helper)];
    assert.deepEqual(
      [mine.first, theirs.first].toSorted((a, b) => a - b),
      [ids.first, ids.first + 65_536],
    );
    for (const { helper } of [one, other]) await assert.rejects(openRange(helper), isFull);
    await mine.close();
    const again = await openRange(other.helper);
    assert.equal(again.first, mine.first);
    // A runner that is killed takes its runs with it, and their ranges are free when they are gone.
    process.kill(other.pid, 'SIGKILL');
    for (const { pid } of [theirs, again]) await untilGone(pid);
    await (await openRange(one.helper)).close();
    // Whoever is left in a range keeps others out of it.
    const left = [ids.first + 5, ids.first + 65_536].map((uid) => spawn('sleep', ['600'], { uid, gid: uid }));
    await Promise.all(left.map((child) => once(child, 'spawn')));
    await assert.rejects(openRange(one.helper), isFull);
    left.forEach((child) => child.kill('SIGKILL'));
    await Promise.all(left.map((child) => once(child, 'exit')));
    await (await openRange(one.helper)).close();
  },
);
