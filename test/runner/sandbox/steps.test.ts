import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import test, { type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { run } from '../../../src/shared/lib/processes.ts';
import {
  announced,
  awaitScript,
  leadThrough,
  script,
  settleIn,
  settingVariables,
} from '../../../src/runner/sandbox/steps.ts';

/** /bin/sh is Dash here; elsewhere it is Bash, which reads a script in another way. */
for (const shell of [['sh'], ['bash', '--posix']]) {
  test(`a waiting ${shell[0]} begins as soon as it has its script`, async (t) => {
    const { child, pipe } = await waiting(t, shell);
    const commands = ['echo "$GREETING from $(pwd)"; cd /; GREETING=', 'echo "$GREETING" "$TOLD" $(pwd)', 'exit 3'];
    const steps = commands.map((command) => ({ name: 'step', command }));
    const variables = settingVariables({
      GREETING: "it's a\nword",
      OPTIND: 'no number',
      UID: '7',
      TMOUT: '1',
      PATH: '/usr/bin:/bin',
    });
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    writeSync(pipe, announced(script({ steps }, { preamble: settleIn('/tmp'), variables }))); // and it stays open
    const leading = leadThrough({
      job: {
        steps,
        next: async ({ at }) => (at < 2 ? { at: at + 1, environment: { TOLD: '.\n+', TMOUT: '1' } } : undefined),
      },
      delivered: async () => {},
      take: () => ({ plain: null, secret: null }),
      isEnding: () => false,
      tell: (text) => void writeSync(pipe, text),
      fail: (error) => assert.fail(String(error)),
    });
    (child.stdio as unknown as Readable[])[5]?.on('data', (chunk: Buffer) => leading.hear(chunk.toString()));
    const [status] = (await once(child, 'close')) as [number];
    assert.deepEqual([said, status], ["it's a\nword from /tmp\nit's a\nword .\n+ /tmp\n", 3]);
  });

  test(`a waiting ${shell[0]} ends when nobody is left to tell it anything`, async (t) => {
    const { child, pipe } = await waiting(t, shell);
    closeSync(pipe);
    await once(child, 'close');
  });
}

test('each step is told of once, in order, whatever the report says', async () => {
  const told: string[] = [];
  const steps = ['launch 0', 'command'].map((name) => ({ name, command: 'true' }));
  const leading = leadThrough({
    job: { steps, onStep: (at, what) => void told.push(`${what} ${at}`) },
    delivered: async () => {},
    take: () => ({ plain: null, secret: null }),
    isEnding: () => false,
    tell: (text) => void told.push(text.split('\n').at(-3) ?? ''),
    fail: (error) => assert.fail(String(error)),
  });
  leading.hear('start 1\nend 1 0\nend 0 0\nstart 7\nnonsense\n');
  assert.deepEqual(told, [], 'nothing begins before the first');
  leading.hear('sta');
  leading.hear('rt 0\nstart 0\nstart 1\nend 1 0\n');
  assert.deepEqual(told, ['start 0'], 'the second does not begin before the end of the first');
  leading.hear(`end 0 0\nend 0 7\n${'x'.repeat(100_000)}`);
  await setImmediate();
  assert.deepEqual(told.splice(0), ['start 0', 'end 0', '+HEADRACE_RUN 1']);
  leading.hear('x\nend 1 0\nstart 1\n');
  assert.deepEqual(await leading.finish(), { step: 1, status: null }, 'what has not ended has no status');
  leading.hear('end 1 3\nend 1 0\n');
  assert.deepEqual(await leading.finish(), { step: 1, status: 3 });
  assert.deepEqual(told, ['start 1', 'end 1', '+exit "${HEADRACE_FAILED:-0}"']);
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
    stdio: ['ignore', 'pipe', 'inherit', 'ignore', reading, 'pipe', nowhere, nowhere],
    env: {},
  });
  closeSync(nowhere);
  closeSync(reading);
  t.after(() => child.kill('SIGKILL'));
  return { child, pipe };
}
