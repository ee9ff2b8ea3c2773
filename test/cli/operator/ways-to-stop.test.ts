import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../../support/databases.ts';
import { Listener, logOf, statesOf } from '../../support/firehose.ts';
import { startInstallation, type Installation, type Project } from '../../support/installation.ts';
import { commandsWith } from '../../support/process-list.ts';

/** What becomes of a running build when its server is stopped: `HEADRACE_STOP`. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    // As systemd starts it.
    installation = await startInstallation(database, { INVOCATION_ID: '8a1f0b2c' });
    project = await installation.project();
  });

  const runner = (): number => Number(readFileSync(join(installation.folder, 'runner', 'pid'), 'utf8'));
  const isThere = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const lines = (count: number): string => Array.from({ length: count }, (_, line) => `line ${line}\n`).join('');
  const saying = (count: number): string =>
    `i=0; while [ $i -lt ${count} ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done`;
  /** The server is started anew with these settings. */
  const restart = async (settings: Record<string, string>): Promise<void> => {
    Object.assign(installation.env, settings);
    await installation.startServer();
  };
  const signal = (): void => void installation.serving().process.kill('SIGTERM');
  const exited = async (): Promise<unknown> => {
    const [status] = (await installation.serving().exited) as [number | null];
    return status;
  };
  const newest = async () => {
    const [commit] = await project.commits();
    return project.builds(commit);
  };

  test('a service leaves it running, and the next server finds it, whole', async (t) => {
    const suite = await project.suite(t, 'left', saying(60));
    const request = await project.ask('main');
    await project.untilLogged(suite, /line 3\n/);
    const before = runner();
    const followed = new Listener(
      await installation.serving().api.open(`${project.path}/builds/${(await newest())[0]?.id_str}/firehose`, {
        as: installation.admin,
      }),
    );
    await followed.until(({ event }) => event === 'log');
    signal();
    assert.equal(await exited(), 0, installation.serving().log());
    await followed.rest(); // it is let go, and can come back
    process.kill(before, 0);
    await pause(1000);
    await restart({});
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.equal(runner(), before, 'the runner is the one that it was');
    const [build, ...others] = await newest();
    assert.deepEqual([build?.attempt, others.length], [1, 0]);
    assert.equal(await project.log(build), lines(60));
  });

  test('one with other settings replaces the runner that was left, when that has done its work', async (t) => {
    const suite = await project.suite(t, 'replaced', saying(50));
    await project.repository.commit({ message: 'Replace it' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /line 3\n/);
    const before = runner();
    signal();
    assert.equal(await exited(), 0);
    await restart({ HEADRACE_CONCURRENCY: '3' });
    assert.equal((await project.end(request)).build_state, 'passed');
    const [build, ...others] = await newest();
    assert.deepEqual([build?.attempt, others.length], [1, 0]);
    assert.equal(await project.log(build), lines(50));
    await project.command(suite, 'echo another');
    await project.repository.commit({ message: 'Use the new one' });
    assert.equal((await project.build('main')).build_state, 'passed');
    assert.notEqual(runner(), before, 'it was replaced');
    while (isThere(before)) await pause(20); // it has done its work, and may be about to end
  });

  test('it leaves nothing where nothing runs', async () => {
    signal();
    assert.equal(await exited(), 0);
    assert.deepEqual(commandsWith(installation.folder), []);
    await restart({ HEADRACE_STOP: 'drain' });
  });

  test('one that drains waits for it, starts nothing else, and is read meanwhile', async (t) => {
    const suite = await project.suite(t, 'drained', saying(60));
    await project.repository.commit({ message: 'Drain' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /line 3\n/);
    const { api } = installation.serving();
    const followed = new Listener(
      await api.open(`${project.path}/build_requests/${request.id_str}/firehose`, { as: installation.admin }),
    );
    signal();
    for (let health = 200; health !== 503;) health = (await api.get('/healthz')).status;
    assert.match((await api.get('/healthz')).text, /is stopping and accepts no more work/);
    for (const [path, form] of [
      ['build_requests', { commit_ref: 'main' }],
      [`build_requests/${request.id_str}/rerun`, {}],
      ['check_connection', {}],
    ] as const) {
      const { status, text } = await installation.ask(`${project.path}/${path}`, form);
      assert.deepEqual([status, text], [403, '{"error":{"generic":["resource_temporary_unavailable"]}}'], path);
    }
    assert.equal((await installation.ask(project.path)).status, 200);
    assert.equal((await installation.ask(`${project.path}/suites`, { name: 'small', command: 'true' })).status, 201);
    const told = await followed.rest();
    assert.equal(logOf(told.filter(({ data }) => 'build_id_str' in data)), lines(60));
    assert.equal(statesOf(told.filter(({ data }) => !('build_id_str' in data))).at(-1), 'passed');
    assert.equal(await exited(), 0, installation.serving().log());
    assert.deepEqual(commandsWith(installation.folder), []);
    await restart({});
  });

  test('a second signal ends the waiting', async (t) => {
    const suite = await project.suite(t, 'endless', 'echo endless; sleep 1000');
    await project.repository.commit({ message: 'Do not wait' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /endless/);
    const { api } = installation.serving();
    signal();
    signal(); // as npm and a terminal do
    // Signals within a second of the first are one, and that counts from when the server heard it.
    for (let health = 200; health !== 503;) health = (await api.get('/healthz')).status;
    await pause(1500);
    assert.equal(installation.serving().process.exitCode, null);
    signal();
    assert.equal(await exited(), 0);
    assert.deepEqual(commandsWith(installation.folder), []);
    await restart({ HEADRACE_STOP: 'break' });
    await project.cancel(request);
  });
});
