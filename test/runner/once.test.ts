import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { keepReserve } from '../../src/shared/lib/disk-reserve.ts';
import type { FinishReport, Link, Order } from '../../src/shared/protocol/index.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import type { RunnerServices } from '../../src/runner/job-runner.ts';
import { openOutbox } from '../../src/runner/outbox.ts';
import { failureOf } from '../../src/runner/failures.ts';
import { startRunner, type Runner } from '../../src/runner/runner.ts';
import { noShells } from '../support/no-shells.ts';
import { temporaryFolder } from '../support/folders.ts';

/** The kind is one that no runner knows, so its outcome is a bad one. */
const orderFor = (claim: string): Order => ({
  claim,
  work: { kind: 'from_the_future' } as never,
  logOffset: 0,
  logLimit: 1000,
});

interface Told {
  runner: Runner;
  reports: FinishReport[];
  holds: (number | undefined)[];
}

async function start(
  t: TestContext,
  idleMs: number,
  next: Link['next'],
  finish: (report: FinishReport) => void = () => {},
): Promise<Told> {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const reports: FinishReport[] = [];
  const holds: (number | undefined)[] = [];
  const nothing = (): never => assert.fail('not asked for');
  const link: Link = {
    next(wish, signal) {
      holds.push(wish.holdMs);
      return next(wish, signal);
    },
    leave: async () => {},
    extend: async (_, signal) => (await once(signal, 'abort'), {}),
    async finish(report) {
      reports.push(report);
      finish(report);
      return { taken: true };
    },
    log: nothing,
    steps: nothing,
    services: nothing,
    tests: nothing,
    read: nothing,
    store: nothing,
    keep: nothing,
    access: nothing,
    registry: nothing,
    gone: async () => [],
    stale: async () => [],
    polls: nothing,
    ...noShells,
    uploaded: () => assert.fail('nothing waits'),
    polled: nothing,
  };
  const mirrors = { collect: async () => ({ removed: 0, tidied: 0 }) } as unknown as Mirrors;
  const outbox = await openOutbox({
    folder: join(folder, 'outbox'),
    disk: keepReserve({ folders: [] }),
    log: () => {},
  });
  const services = { mirrors, outbox, close: async () => {} } as RunnerServices;
  const runner = await startRunner({
    link,
    folder,
    services,
    concurrency: 4,
    log: () => {},
    once: { idleMs },
    finishTries: 3,
  });
  return { runner, reports, holds };
}

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
