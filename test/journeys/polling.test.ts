import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { settableClock, type SettableClock } from '../support/clock.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { longestWait } from '../support/pauses.ts';

/** Longer than the least interval between two polls, which is fifteen seconds and a tenth more or less. */
const intervalSeconds = 17;

/** Nothing but the installed key: no hook, no open port. The program's clock is set ahead instead of waiting. */
onOneDatabase((database) => {
  let clock: SettableClock;
  let ahead = 0;
  let installation: Installation;
  let project: Project;
  before(async () => {
    clock = await settableClock();
    installation = await startInstallation(database, clock.env);
    project = await installation.project();
  });
  const polling = (): Promise<Item> => project.api().get(`${project.path}/polling`);
  const requests = (): Promise<Item[]> => project.api().get(`${project.path}/build_requests`);
  const nextPoll = (): void => clock.set((ahead += intervalSeconds));
  const until = async (done: () => Promise<boolean>): Promise<void> => {
    for (const began = Date.now(); !(await done()); await pause(100)) {
      assert.ok(Date.now() - began < longestWait, JSON.stringify(await polling()));
    }
  };

  test('a push is built once, also when the server is killed during a poll', async (t) => {
    await project.suite(t, 'unit', 'echo "$HEADRACE_EVENT of $HEADRACE_BRANCH for $HEADRACE_TARGET_BRANCH"');
    await project.api().put(project.path, { poll_interval: '15' });
    await until(async () => (await polling()).outcome === 'first_poll');
    assert.deepEqual(await requests(), []);

    const sha = await project.repository.commit({ message: 'Greet' });
    nextPoll();
    await until(async () => (await requests()).length > 0);
    const [request] = await requests();
    assert.equal(request?.commit_ref, sha);
    assert.equal((await project.end(request)).build_state, 'passed');
    const [commit] = await project.commits();
    const [build] = await project.builds(commit);
    assert.equal(await project.log(build), 'poll of main for main\n');

    // The next poll takes a while, and in the middle of it the server dies.
    const mark = join(installation.folder, 'looking');
    const slow = `#!/bin/sh\n: > '${mark}'\nsleep 2\neval exec "$SSH_ORIGINAL_COMMAND"\n`;
    const second = await project.repository.commit({ message: 'Greet again' });
    await installation.host.provide('git-upload-pack', slow);
    nextPoll();
    await until(async () => existsSync(mark));
    await installation.killServer();
    await installation.startServer();
    await until(async () => (await requests()).length > 1);
    nextPoll();
    await until(async () => (await polling()).outcome === 'unchanged'); // and one more look, which sees nothing new
    const all = await requests();
    assert.deepEqual(new Set(all.map(({ commit_ref }) => commit_ref)), new Set([sha, second]));
    assert.equal(all.length, 2);
    const [newest] = all;
    assert.equal((await project.end(newest ?? assert.fail())).build_state, 'passed');

    // The poll tells only the SHA, so it is fetched before anybody knows what its message says.
    const third = await project.repository.commit({ message: 'Tidy [skip ci]' });
    nextPoll();
    await until(async () => (await requests()).length > 2);
    const [skipped = assert.fail()] = await requests();
    assert.equal((await project.end(skipped)).build_state, 'passed');
    const [tidied] = await project.commits();
    assert.deepEqual([tidied?.ref, tidied?.build_state, await project.builds(tidied)], [third, 'skipped', []]);
    const place = `${project.path}/build_requests/${skipped.id_str}`;
    const why = `The message of commit ${third} contains [skip ci]: nothing is built.`;
    const { text } = await project.api().get<{ text: string }>(`${place}/log`);
    assert.ok(text.endsWith(`\n${why}\n`), text);
    const [unit] = await project.api().get<{ why: string }[]>(`${place}/explanation`);
    assert.equal(unit?.why, why);
    assert.equal((await project.build(third)).build_state, 'passed'); // who asks by hand means it
    assert.equal((await project.builds(tidied)).length, 1);
  });
});
