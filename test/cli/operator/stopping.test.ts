import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { cleanUpAfterwards, folderFor } from '../../support/folders.ts';
import { commandsWith, untilCreated } from '../../support/process-list.ts';
import { headrace, serve, startProgram, type Started } from '../../support/program.ts';
import { lacks } from '../../support/machine.ts';
import { longestWait } from '../../support/pauses.ts';

const limit = { timeout: longestWait };
/** A server takes SIGHUP for something else, unless its terminal was closed. */
const ofServers = ['SIGTERM', 'SIGINT'] as const;
const signals = [...ofServers, 'SIGHUP'] as const;

describe('a signal', () => {
  const afterwards = cleanUpAfterwards();
  const place = (): string => folderFor(afterwards);
  /** Nothing that was started is left. By its command line, so that also what only starts is found. */
  const assertNothingRuns = (folder: string, stage: string): void => {
    const left = commandsWith(folder).map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
    assert.deepEqual(left, [], `after ${stage}`);
  };
  const assertStopped = (status: number | NodeJS.Signals, signal: NodeJS.Signals, started: Started): void =>
    // Before its first line of ours, the signal itself ends it.
    assert.ok(status === 0 || status === signal, `${status}: ${started.said()}`);

  // As they come, from the first thing that a start makes to the moment when the runner has its first sandbox open.
  const stages = ['', 'server.lock', 'headrace.db', 'headrace.db-wal', 'master.key', 'blobs', 'tls', 'server.sock'];
  const runnerStages = [
    'runner.log',
    'runner',
    'runner/git',
    'runner/sandboxes',
    'runner/checkouts',
    'runner/software',
  ];
  const lastStages = ['runner/spool', 'runner/pid', 'runner.sock'];

  const withRunner = { ...limit, skip: lacks('isolated runner') };

  for (const [at, stage] of [...stages, ...runnerStages, ...lastStages].entries()) {
    const signal = ofServers[at % ofServers.length] ?? 'SIGTERM';
    test(
      `${signal} stops a server and its runner when ${stage === '' ? 'it has just begun' : `${stage} is there`}`,
      stages.includes(stage) ? limit : withRunner,
      async () => {
        const folder = join(place(), 'data');
        mkdirSync(folder);
        const there = stage === '' ? Promise.resolve() : untilCreated(folder, stage);
        const started = startProgram({ afterwards }, ['serve', '--data-dir', folder, '--port', '0']);
        await Promise.race([there, started.exited]);
        started.process.kill(signal);
        assertStopped(await started.exited, signal, started);
        assertNothingRuns(folder, stage);
      },
    );
  }

  test('stops a server once, also when it comes again and again', withRunner, async () => {
    for (const stage of ['server.sock', 'runner.log', 'runner/sandboxes', 'runner.sock']) {
      const folder = join(place(), 'data');
      mkdirSync(folder);
      const there = untilCreated(folder, stage);
      const started = startProgram({ afterwards }, ['serve', '--data-dir', folder, '--port', '0']);
      await Promise.race([there, started.exited]);
      const again = watch(folder, { persistent: false }, () => void started.process.kill('SIGINT'));
      for (const signal of [...signals, ...signals]) started.process.kill(signal);
      assert.equal(await started.exited, 0, started.said());
      again.close();
      assertNothingRuns(folder, stage);
    }
  });

  test('at the moment when a server finds the runner of one that was killed stops both', withRunner, async () => {
    const folder = join(place(), 'data');
    mkdirSync(folder);
    const alive = untilCreated(folder, 'runner.sock');
    const first = await serve({ afterwards }, folder, {}, { runner: true });
    await alive;
    const pid = readFileSync(join(folder, 'runner', 'pid'), 'utf8');
    first.process.kill('SIGKILL');
    await first.exited;
    first.api.close();
    process.kill(Number(pid), 0); // it lives, for the next server
    const second = startProgram({ afterwards }, ['serve', '--data-dir', folder, '--port', '0']);
    await once(second.process.stdout ?? second.process, 'data');
    second.process.kill('SIGTERM');
    assert.equal(await second.exited, 0, second.said());
    assertNothingRuns(folder, 'the line that says it listens');
  });

  test(
    'to a server that was killed before its runner could be reached leaves one runner to the next',
    withRunner,
    async () => {
      const folder = join(place(), 'data');
      mkdirSync(folder);
      const there = untilCreated(folder, 'runner/git');
      const first = await serve({ afterwards }, folder, {}, { runner: true });
      await there;
      first.process.kill('SIGKILL');
      await first.exited;
      first.api.close();
      const second = await serve({ afterwards }, folder, {}, { runner: true });
      second.process.kill('SIGTERM');
      assert.deepEqual(await second.exited, [0, null]);
      second.api.close();
      assertOnlyTheFirst(folder);
    },
  );

  /** What the killed server had started may still be there, on its own: it goes when nobody comes for it. */
  function assertOnlyTheFirst(folder: string): void {
    const runners = commandsWith(`runner\0--local\0--data-dir\0${folder}\0`);
    assert.ok(runners.length <= 1, `${runners.length} runners`);
    for (const pid of runners) process.kill(pid, 'SIGTERM');
  }

  test('stops a runner elsewhere whenever it comes', withRunner, async () => {
    const folder = place();
    const data = join(folder, 'server');
    mkdirSync(data);
    const server = await serve({ afterwards }, data);
    const created = await headrace(['admin', 'runner', 'create', 'r1', '--data-dir', data]);
    const { token } = JSON.parse(created.stdout.toString()) as { token: string };
    writeFileSync(join(folder, 'token'), token);
    const args = ['--url', server.address, '--token-file', join(folder, 'token')];
    args.push('--ca-file', join(data, 'tls', 'cert.pem'));
    for (const [at, stage] of ['', '/git', '/sandboxes', '/checkouts', '/software', '/spool'].entries()) {
      const more = at % 2 === 0 ? [] : ['--once']; // most of a start is the same
      const own = join(folder, `runner-${at}`);
      mkdirSync(own);
      const there = stage === '' ? Promise.resolve() : untilCreated(own, `remote-runner${stage}`);
      const started = startProgram({ afterwards }, ['runner', ...args, ...more, '--data-dir', own]);
      await Promise.race([there, started.exited]);
      const signal = signals[at % signals.length] ?? 'SIGTERM';
      started.process.kill(signal);
      started.process.kill('SIGTERM');
      const status = await started.exited;
      assert.ok(status === 0 || status === signal || status === 'SIGTERM', `${status}: ${started.said()}`);
      assertNothingRuns(own, stage);
    }
    server.api.close();
    server.process.kill('SIGTERM');
    await server.exited;
  });
});
