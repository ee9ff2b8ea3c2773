import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SuiteOrder } from '../../src/shared/protocol/index.ts';
import type { RunnerDeps, Task } from '../../src/runner/job-runner.ts';
import { runSuite } from '../../src/runner/run-suite.ts';

const order = { kind: 'run_suite', secrets: [], imageBuilds: { registries: [] } } as unknown as SuiteOrder;

async function refused(services: Partial<RunnerDeps>): Promise<{ reason: unknown; said: string }> {
  let said = '';
  const task = { writeLog: (text: Buffer) => void (said += text.toString()), logLines: 0 } as unknown as Task;
  const outcome = await runSuite(services as RunnerDeps, order, task);
  assert.equal(outcome.kind, 'unrunnable');
  return { reason: 'reason' in outcome && outcome.reason, said };
}

test('a runner whose operator forbids it builds no images, whatever the server says', async () => {
  const sandboxes = { hasManyUsers: true } as RunnerDeps['sandboxes'];
  const { reason, said } = await refused({ sandboxes, forbidsImageBuilds: true });
  assert.equal(reason, 'image_builds_off');
  assert.equal(said, 'The operator of this runner does not let builds make images (HEADRACE_IMAGE_BUILDS).\n');
});

test('a runner that has no user IDs to give says so', async () => {
  const sandboxes = { hasManyUsers: false } as RunnerDeps['sandboxes'];
  const { reason, said } = await refused({ sandboxes });
  assert.equal(reason, 'image_builds_not_possible');
  assert.match(said, /^This runner cannot run builds that make images: .*must be root/);
});
