import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { runGroup, SilenceError } from '../../src/lib/process-groups.ts';

async function isRunning(pid: number): Promise<boolean> {
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return state !== undefined && !/^\d+ \(.*\) Z/s.test(state);
}

/** The kernel takes a moment to tear a process down; a minute without that is a failure. */
async function untilGone(pid: number): Promise<void> {
  for (const start = Date.now(); await isRunning(pid); await pause(5)) {
    assert.ok(Date.now() - start < 60_000, `process ${pid} is still there`);
  }
}

test('a program is run to its end and heard while it runs', async () => {
  const heard: string[] = [];
  const script = 'read word; echo "out $word"; echo err >&2; exit 3';
  const finished = await runGroup('sh', ['-c', script], {
    input: 'in\n',
    onStderr: (chunk) => heard.push(chunk.toString()),
  });
  assert.equal(finished.status, 3);
  assert.equal(finished.stdout.toString(), 'out in\n');
  assert.equal(finished.stderr.toString(), 'err\n');
  assert.deepEqual(heard, ['err\n']);
});

test('of long output the beginning is kept, of long errors the end', async () => {
  const script = 'seq 1 20000; seq 1 20000 >&2';
  const finished = await runGroup('sh', ['-c', script], { maxOutput: 1000 });
  assert.equal(finished.stdout.length, 1000);
  assert.ok(finished.stdout.toString().startsWith('1\n2\n'));
  assert.equal(finished.stderr.length, 1000);
  assert.ok(finished.stderr.toString().endsWith('19999\n20000\n'));
});

test('a cancelled program goes with its children, also when they ignore the polite signal', async () => {
  const controller = new AbortController();
  const { promise: child, resolve } = Promise.withResolvers<number>();
  const running = runGroup('sh', ['-c', 'trap "" TERM; sleep 1000 & echo $! >&2; wait; wait; sleep 1000'], {
    signal: controller.signal,
    onStderr: (chunk) => resolve(Number(chunk)),
  });
  const pid = await child;
  controller.abort(new Error('cancelled'));
  await assert.rejects(running, /cancelled/);
  await untilGone(pid);
});

test('a cancelled program is not waited for when somebody outside holds its output', async (t) => {
  const controller = new AbortController();
  const { promise: outsider, resolve } = Promise.withResolvers<number>();
  const running = runGroup('sh', ['-c', 'setsid sleep 1000 & echo $! >&2; wait'], {
    signal: controller.signal,
    onStderr: (chunk) => resolve(Number(chunk)),
  });
  const pid = await outsider;
  t.after(() => process.kill(pid, 'SIGKILL'));
  controller.abort(new Error('cancelled'));
  await assert.rejects(running, /cancelled/);
});

test('a program that falls silent is ended', async () => {
  await assert.rejects(runGroup('sleep', ['1000'], { longestSilenceMs: 20 }), SilenceError);
});

test('the program is ended by the kernel when this process is killed', async (t) => {
  const module = new URL('../../src/lib/process-groups.ts', import.meta.url).href;
  const code = `const { runGroup } = await import(${JSON.stringify(module)}); await runGroup('sh', ['-c', 'echo $$ >&2; exec sleep 1000'], { onStderr: (chunk) => process.stdout.write(chunk) });`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => parent.kill('SIGKILL'));
  const [chunk] = (await once(parent.stdout, 'data')) as [Buffer];
  const pid = Number(chunk);
  assert.ok(await isRunning(pid));
  parent.kill('SIGKILL');
  await untilGone(pid);
});
