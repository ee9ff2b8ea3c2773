import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ended } from '../../../src/runner/sandbox/types.ts';
import { open, usualLimits } from './support.ts';

test('what stands beside a run and is killed for lack of memory is called by its name', async (t) => {
  const { sandboxes, logged } = await open(t);
  if (!/cgroup v/.test(logged.join())) return t.skip('needs control groups');
  const limits = { ...usualLimits, memoryBytes: 64 * 1024 ** 2 };
  const common = { environment: {}, limits, workspace: { empty: true }, signal: t.signal } as const;
  const ends: Ended[] = [];
  const besides = [`exec perl -e '$x = "x" x (400 * 1024 * 1024); sleep 60'`, 'exit 3'];
  await sandboxes.run({
    ...common,
    id: 'run',
    steps: [{ name: 'suite', command: 'true' }],
    output: async () => {},
    before: async (around) => {
      for (const [at, command] of besides.entries()) {
        const steps = [{ name: 'service', command }];
        ends.push(await around.start({ ...common, id: `beside-${at}`, steps, output: async () => {} }).ended);
      }
    },
  });
  assert.deepEqual(
    ends.map(({ exitStatus, reason }) => [exitStatus, reason]),
    [
      [137, 'out_of_memory'],
      [3, null],
    ],
  );
});
