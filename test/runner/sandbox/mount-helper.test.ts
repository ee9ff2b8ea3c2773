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

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`)
    .flatMap((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' '))
    .filter((child) => child !== '')
    .map(Number);

const mountNamespacesHeldBy = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`)
    .map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    .filter((target) => target.startsWith('mnt:'));

/** The mount helper, and the processes beside it in the order in which it opened them. */
async function openHelper(
  t: TestContext,
  onLost: (error: Error) => void = assert.ifError,
): Promise<{ helper: MountHelper; pid: number; beside: number[] }> {
  const others = childrenOf(process.pid);
  const helper = await openMountHelper({ onLost });
  t.after(() => helper.close());
  const [pid = 0] = childrenOf(process.pid).filter((child) => !others.includes(child));
  return { helper, pid, beside: childrenOf(pid).toSorted((a, b) => a - b) };
}

const openRun = (helper: MountHelper): ReturnType<MountHelper['open']> =>
  helper.open({
    ownNetwork: false,
    entrances: [],
    as: { uid: isRoot ? 65_534 : -1, gid: isRoot ? 65_534 : -1 },
    descriptors: { 0: { file: '/dev/null' } },
    command: ['sleep', '600'],
  });

for (const [at, name] of ['starter', 'cleaner'].entries()) {
  test(`without its ${name} the mount helper ends, and says so`, async (t) => {
    const lost = Promise.withResolvers<Error>();
    const { helper, beside } = await openHelper(t, lost.resolve);
    assert.equal(beside.length, 2);
    const run = openRun(helper);
    await run.start();
    process.kill(beside[at] ?? 0, 'SIGKILL');
    await run.close();
    assert.match((await lost.promise).message, new RegExp(`the ${name} ended`));
    await assert.rejects(openRun(helper).start(), new RegExp(`the mount helper ended .*: the ${name} ended`));
  });
}

test('a run that is over leaves no namespaces, and removing tells how it went, in order', async (t) => {
  const { helper, pid, beside } = await openHelper(t);
  const folder = await mkdtemp(join(tmpdir(), 'headrace-helper-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const [few, many] = [join(folder, 'few'), join(folder, 'many')];
  for (let count = 0; count < 10; count += 1) await mkdir(join(few, `${count}`), { recursive: true });
  for (let count = 0; count < 100; count += 1) await mkdir(join(many, `${count}`), { recursive: true });
  const runs = Array.from({ length: 5 }, () => openRun(helper));
  await Promise.all(runs.map((run) => run.start()));
  const opened = await Promise.all(runs.map((run) => run.paths));
  const namespaces = opened.map(({ mount }) => mount);
  assert.ok(namespaces.every((path) => existsSync(path)));
  const removed = Promise.allSettled([few, many, join(folder, 'nothing')].map((path) => helper.removeSmall([path])));
  await Promise.all(runs.map((run) => run.close()));
  assert.deepEqual(
    (await removed).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual([existsSync(few), existsSync(many)], [false, true]);
  // By the time a run is gone, neither the helper nor the cleaner holds its namespaces.
  assert.ok(namespaces.every((path) => !existsSync(path)));
  const own = readlinkSync(`/proc/${pid}/ns/mnt`);
  assert.deepEqual([...new Set([pid, ...beside].flatMap(mountNamespacesHeldBy))], [own]);
});

test(
  'no two runs have the same range of IDs, also of two runners, and it is said when all are in use [promise: build-user]',
  { skip: !isRoot && 'only root has ranges to give' },
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
