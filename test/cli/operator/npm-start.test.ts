import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { temporaryFolder } from '../../support/databases.ts';
import { commandsWith, untilCreated } from '../../support/process-list.ts';
import { lacks } from '../../support/machine.ts';
import { longestWait } from '../../support/pauses.ts';

const limit = { timeout: longestWait };
const root = join(import.meta.dirname, '../../..');
/** More than a server and its runner take to stop. */
const longestStop = 120_000;

/** As a person's shell has it, and not the npm that runs the tests. */
function environment(): NodeJS.ProcessEnv {
  const foreign = /^(npm_|HEADRACE|NODE_OPTIONS|NODE_TEST_CONTEXT|INVOCATION_ID|NOTIFY_SOCKET)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}

describe('npm start', () => {
  /** What it started is there, though it may not have come far. */
  const begun = async (folder: string, npm: number): Promise<void> => {
    while (!commandsWith(folder).some((pid) => pid !== npm)) await pause(1);
  };
  type Reached = (folder: string, npm: number) => Promise<void>;
  const moments: [moment: string, reached: Reached, skip: string | false][] = [
    ['has just begun', begun, false],
    ['has its runner', (folder) => untilCreated(folder, 'runner.sock'), lacks('isolated runner')],
  ];

  /** Starts it in a group of its own, sends the signal at that moment, and waits until nothing of it is left. */
  const leavesNothing = async (signal: NodeJS.Signals, who: 'npm' | 'group', reached: Reached): Promise<void> => {
    const folder = join(temporaryFolder(), 'data');
    mkdirSync(folder);
    const args = ['start', '--', '--data-dir', folder, '--port', '0'];
    const npm = spawn('npm', args, { cwd: root, env: environment(), stdio: 'ignore', detached: true });
    const exited = once(npm, 'exit');
    const { pid = 0 } = npm;
    try {
      await Promise.race([reached(folder, pid), exited]);
      process.kill(who === 'npm' ? pid : -pid, signal);
      await exited;
      const deadline = Date.now() + longestStop;
      while (commandsWith(folder).length > 0 && Date.now() < deadline) await pause(50);
      assert.deepEqual(commandsWith(folder), [], `${signal} to ${who}`);
    } finally {
      for (const left of commandsWith(folder)) process.kill(left, 'SIGKILL');
      rmSync(join(folder, '..'), { recursive: true, force: true });
    }
  };

  for (const [moment, reached, skip] of moments) {
    const options = { ...limit, skip };
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
      const name = `leaves no server behind when ${signal} comes to npm alone or to all of them, once it ${moment}`;
      test(name, options, async () => {
        await Promise.all([leavesNothing(signal, 'npm', reached), leavesNothing(signal, 'group', reached)]);
      });
    }

    test(`leaves no server behind when npm is killed, once it ${moment}`, options, async () => {
      await leavesNothing('SIGKILL', 'npm', reached);
    });
  }
});
