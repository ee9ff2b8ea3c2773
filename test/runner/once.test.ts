import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { FinishReport, Link } from '../../src/shared/protocol/index.ts';
import { failureOf } from '../../src/runner/failures.ts';
import { orderFor, startScripted } from '../support/scripted-runner.ts';

const start = (t: TestContext, idleMs: number, next: Link['next'], finish?: (report: FinishReport) => void) =>
  startScripted(t, { once: { idleMs }, next, ...(finish && { finish }) });

describe('a runner that does one job', () => {
  test('does no other', async (t) => {
    let asked = 0;
    const { runner, reports } = await start(t, 60_000, async ({ claim }) => {
      asked += 1;
      return orderFor(claim);
    });
    await runner.done;
    assert.deepEqual([asked, reports.length], [1, 1]);
  });

  test('ends when none came in time, and asks for no longer than it waits', async (t) => {
    let asked = 0;
    const { runner, reports, holds } = await start(t, 1000, async ({ holdMs = 0 }, signal) => {
      asked += 1;
      // Answered at once at first: on a slow machine a pause could take all of its time, and it would not ask again.
      if (asked > 2) await pause(holdMs, undefined, { signal });
      return undefined;
    });
    await runner.done;
    assert.equal(reports.length, 0);
    assert.ok(holds.every((hold) => hold !== undefined && hold <= 1000) && holds.length >= 3, holds.join());
    assert.equal(holds.at(-1), 0, 'the last question is answered at once');
  });

  test('does the job that comes with the last answer', async (t) => {
    const { runner, reports } = await start(t, 50, async ({ claim, holdMs = 0 }, signal) => {
      await pause(holdMs, undefined, { signal });
      return holdMs === 0 ? orderFor(claim) : undefined;
    });
    await runner.done;
    assert.equal(reports.length, 1);
  });

  test('reports the job as lost to a server that fails at its outcome again and again', async (t) => {
    const { runner, reports } = await start(
      t,
      60_000,
      async ({ claim }) => orderFor(claim),
      ({ outcome }) => {
        if (outcome.kind === 'lost' && reports.length > 3) return;
        throw failureOf('finish', 500, '{"error":{"generic":[]}}');
      },
    );
    await runner.done;
    assert.equal(reports.length, 4);
    const { outcome } = reports[3] ?? {};
    assert.ok(outcome?.kind === 'lost' && /answered finish with 500/.test(outcome.message), JSON.stringify(outcome));
  });

  test('reports no bad end of a job that was ended together with it', async (t) => {
    const ordered = Promise.withResolvers<void>();
    const { runner, reports } = await start(t, 60_000, async ({ claim }) => {
      ordered.resolve();
      return orderFor(claim);
    });
    await ordered.promise;
    await pause(100);
    await runner.stop();
    assert.equal(reports.length, 0);
  });
});
