import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../../src/shared/lib/processes.ts';
import { entry, freeIds, ordinaryRunner, ordinaryUser } from '../../support/ordinary-runner.ts';
import type { Started } from '../../support/program.ts';
import { lacks } from '../../support/machine.ts';

/** What a runner that is an ordinary user says about its user IDs when it starts. */

const skip = lacks('other users', 'mounts');
const runnerOf = (t: TestContext) => ordinaryRunner((cleanUp) => t.after(cleanUp), 'ordinary');

async function untilSaid(runner: Started, words: RegExp): Promise<string> {
  let isOver = false;
  void runner.exited.then(() => (isOver = true));
  for (;;) {
    const [found] = words.exec(runner.said()) ?? [];
    if (found !== undefined) return found;
    assert.ok(!isOver, `it ended: ${runner.said()}`);
    await pause(10);
  }
}
const aboutIds = /builds in images have [^"]*/;
const one = 'builds in images have one user ID, and everything in an image belongs to it: ';
const many = (first: number): string =>
  `builds in images have 65536 user IDs, from ${first} on (/etc/subuid); those that run here at once share them`;

async function killed(runner: Started): Promise<void> {
  runner.process.kill('SIGKILL');
  await runner.exited;
}

test('an ordinary user without IDs of others has one, and the runner says why', { skip }, async (t) => {
  const { start } = await runnerOf(t);
  const first = freeIds();
  const ways: [string, Parameters<typeof start>[1], string][] = [
    ['somebody:1:1', {}, '/etc/subuid gives no IDs to ordinary'],
    [entry(0), {}, '/etc/subuid gives ordinary 65536 IDs from 0 on, and 0 of them is root on this machine'],
    [
      entry(first),
      { within: ['setpriv', '--no-new-privs'] },
      'newuidmap has no effect here, because this process may not gain privileges (no_new_privs)',
    ],
    [
      entry(first),
      { mount: 'mount --bind /dev/null /usr/bin/newuidmap' },
      'newuidmap not found. Install with: apt-get install uidmap',
    ],
  ];
  for (const [subordinate, more, why] of ways) {
    const runner = start(subordinate, more);
    assert.equal(await untilSaid(runner, aboutIds), one + why);
    await killed(runner);
  }
});

test(
  'no two runners have the same IDs, and each has those again that its files belong to [promise: build-user]',
  { skip },
  async (t) => {
    const [first, second, third] = [await runnerOf(t), await runnerOf(t), await runnerOf(t)];
    const ids = freeIds(2);
    const two = entry(ids, 2 * 65_536);
    const running = first.start(two);
    assert.equal(await untilSaid(running, aboutIds), many(ids));
    const other = second.start(two);
    assert.equal(await untilSaid(other, aboutIds), many(ids + 65_536));
    const late = third.start(two);
    assert.equal(
      await untilSaid(late, aboutIds),
      `${one}all user IDs that /etc/subuid gives to this user are in use, by another runner or another program`,
    );
    // Killed, they leave nothing that runs, and nobody else gets what their files belong to.
    await killed(running);
    await killed(other);
    const again = second.start(two);
    assert.equal(await untilSaid(again, aboutIds), many(ids + 65_536));
    await killed(again);
    while (inhabitants(ids, 2 * 65_536).length > 0) await pause(10);
    // Its folder has the files of IDs that the operator has taken away, or that nobody hands out any more.
    const belong = `files in ${second.folder}/remote-runner belong to the user IDs ${ids + 65_536}:${ids + 65_536}, which this runner does not have now`;
    const ways: [string, Parameters<typeof second.start>[1], string][] = [
      [entry(ids), {}, '/etc/subuid assigns other IDs'],
      ['somebody:1:1', {}, '/etc/subuid gives no IDs to ordinary'],
      [two, { mount: 'mount --bind /dev/null /usr/bin/newuidmap' }, 'newuidmap not found'],
    ];
    for (const [subordinate, more, why] of ways) {
      const without = second.start(subordinate, more);
      assert.equal(await without.exited, 1);
      assert.ok(without.said().includes(`${belong} (${why}`), without.said());
    }
  },
);

test('what an ordinary user kept before it had IDs of others goes', { skip }, async (t) => {
  const runner = await runnerOf(t);
  const plain = runner.start('somebody:1:1');
  await untilSaid(plain, aboutIds);
  await killed(plain);
  const kept = ['images', 'caches', 'kept', 'software'].map((name) =>
    join(runner.folder, 'remote-runner', name, 'old'),
  );
  for (const path of kept) mkdirSync(path, { recursive: true });
  await run('chown', ['-R', `${ordinaryUser.id}:${ordinaryUser.id}`, join(runner.folder, 'remote-runner')]);
  const ids = freeIds();
  assert.equal(await untilSaid(runner.start(entry(ids)), aboutIds), many(ids));
  assert.deepEqual(
    kept.map((path) => existsSync(path)),
    [false, false, false, false],
  );
});

function inhabitants(first: number, count: number): string[] {
  return readdirSync('/proc').filter((name) => {
    const uid = /^\d+$/.test(name) ? (statSync(`/proc/${name}`, { throwIfNoEntry: false })?.uid ?? 0) : 0;
    return uid >= first && uid < first + count;
  });
}
