import assert from 'node:assert/strict';
import { mkdtemp, statfs } from 'node:fs/promises';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { groupMeter } from '../../../src/runner/sandbox/cgroup-meter.ts';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import { megabyte, open } from './support.ts';

const inMemory = 0x01021994;
const project = join(import.meta.dirname, '../../..');

test('what a run and its sidecars wrote to disk counts, also what they removed again', async (t) => {
  // Usual test folders are in memory.
  mkdirSync(join(project, '.test'), { recursive: true });
  const stateDir = await mkdtemp(join(project, '.test', 'usage-'));
  if ((await statfs(stateDir)).type === inMemory) return t.skip('the folder of the project is in memory');
  const bench = await open(t, { stateDir }, () => removeTree(stateDir));
  const write = (megabytes: number) => `head -c ${megabytes * megabyte} /dev/zero >x; rm x`;
  const idle = await bench.sh('true');
  assert.ok((idle.used?.diskWritten ?? Infinity) < megabyte);
  assert.deepEqual([idle.used?.networkReceived, idle.used?.networkSent], [0, 0]);
  const busy = await bench.sh(write(24), {
    async before(beside) {
      const { ended } = beside.start({
        id: 'beside',
        steps: [{ name: 'beside', command: write(16) }],
        environment: {},
        workspace: { empty: true },
        limits: { memoryBytes: 512 * megabyte, processes: 50, timeoutMs: 60_000 },
        output: () => {},
        signal: new AbortController().signal,
      });
      await ended;
    },
  });
  const written = (busy.used?.diskWritten ?? 0) / megabyte;
  assert.ok(written >= 40 && written < 42, `${written} MB`);
});

test('a part of a run has its own peak only if the counter began again, or rose', () => {
  let [cpu, peak, canRestart] = [100, 50, true];
  const meter = groupMeter({
    cpuMs: () => cpu,
    peak: () => peak,
    restart: () => {
      if (canRestart) peak = 10;
      return canRestart;
    },
  });
  meter.lap();
  [cpu, peak] = [130, 20];
  assert.deepEqual(meter.lap(), { cpuMs: 30, memoryPeak: 20 });
  assert.deepEqual(meter.used(), { cpuMs: 130, memoryPeak: 50 }, 'the whole run keeps its highest');
  canRestart = false;
  [cpu, peak] = [140, 30];
  assert.deepEqual(meter.lap(), { cpuMs: 10, memoryPeak: 30 }, 'it began again before');
  assert.deepEqual(meter.lap(), { cpuMs: 0, memoryPeak: undefined });
  peak = 70;
  assert.deepEqual(meter.lap(), { cpuMs: 0, memoryPeak: 70 });
});
