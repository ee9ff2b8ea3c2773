import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/lib/processes.ts';
import { announced, awaitScript, script, settleIn, reportSteps } from '../../../src/runner/sandbox/steps.ts';

/** /bin/sh is Dash here; elsewhere it is Bash, which reads a script in another way. */
for (const shell of [['sh'], ['bash', '--posix']]) {
  test(`a waiting ${shell[0]} begins as soon as it has its script`, async (t) => {
    const { child, pipe } = await waiting(t, shell);
    const steps = ['echo "$GREETING from $(pwd)"', 'exit 3'].map((command) => ({ name: 'step', command }));
    const preamble = settleIn('/tmp', {
      GREETING: "it's a\nword",
      OPTIND: 'no number',
      UID: '7',
      PATH: '/usr/bin:/bin',
    });
    const text = announced(script(steps, { preamble }));
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    writeSync(pipe, text); // and it stays open
    const [status] = (await once(child, 'close')) as [number];
    assert.deepEqual([said, status], ["it's a\nword from /tmp\n", 3]);
  });

  test(`a waiting ${shell[0]} ends when nobody is left to tell it anything`, async (t) => {
    const { child, pipe } = await waiting(t, shell);
    closeSync(pipe);
    await once(child, 'close');
  });
}

test('each step is told of once, in order, whatever the report says', () => {
  const told: string[] = [];
  const steps = ['launch 0', 'command'].map((name) => ({ name, command: 'true' }));
  const tell = reportSteps({ steps, onStep: (at, what) => void told.push(`${what} ${at}`) });
  tell('start 1\nend 1 0\nend 0 0\nstart 7\nnonsense\n');
  assert.deepEqual(told, [], 'nothing begins before the first');
  tell('start 0\n');
  tell('start 0\nstart 0\nstart 1\n');
  assert.deepEqual(told, ['start 0'], 'the second does not begin before the end of the first');
  tell('start 0\nend 0 0\nstart 1\n');
  tell('start 0\nend 0 0\nstart 1\nend 1 3\nend 1 0\n');
  assert.deepEqual(told, ['start 0', 'end 0', 'start 1', 'end 1']);
});

async function waiting(t: TestContext, [shell = '', ...options]: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-steps-'));
  t.after(() => rm(folder, { recursive: true }));
  const fifo = join(folder, 'script');
  await run('mkfifo', ['--', fifo]);
  const pipe = openSync(fifo, constants.O_RDWR);
  const reading = openSync(fifo, constants.O_RDONLY);
  const nowhere = openSync('/dev/null', 'r+');
  const child = spawn(shell, [...options, '-c', awaitScript], {
    stdio: ['ignore', 'pipe', 'inherit', 'ignore', reading, nowhere, nowhere, nowhere],
    env: {},
  });
  closeSync(nowhere);
  closeSync(reading);
  t.after(() => child.kill('SIGKILL'));
  return { child, pipe };
}
