import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { keepReserve } from '../../src/shared/lib/disk-reserve.ts';
import type { FinishReport, Link, Order } from '../../src/shared/protocol/index.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { openOutbox } from '../../src/runner/outbox.ts';
import { startRunner, type Runner, type RunnerOptions } from '../../src/runner/runner.ts';
import { temporaryFolder } from './folders.ts';
import { noShells } from './no-shells.ts';

/** The kind is one that no runner knows, so its outcome is a bad one. */
export const orderFor = (claim: string): Order => ({
  claim,
  work: { kind: 'from_the_future' } as never,
  logOffset: 0,
  logLimit: 1000,
});

export interface ScriptedRunner {
  runner: Runner;
  reports: FinishReport[];
  holds: (number | undefined)[];
}

interface Script extends Pick<RunnerOptions, 'once' | 'untilIdle'> {
  concurrency?: number;
  next: Link['next'];
  finish?: (report: FinishReport) => void;
  leave?: Link['leave'];
}

/** A runner whose server answers by a script, and that can do nothing. */
export async function startScripted(
  t: TestContext,
  { next, finish = () => {}, leave = async () => {}, concurrency = 4, ...life }: Script,
): Promise<ScriptedRunner> {
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
    leave,
    extend: async (_, signal) => (await once(signal, 'abort'), {}),
    async finish(report) {
      reports.push(report);
      finish(report);
      return { taken: true };
    },
    log: nothing,
    steps: nothing,
    stepPoint: nothing,
    services: nothing,
    tests: nothing,
    summary: nothing,
    read: nothing,
    store: nothing,
    storeFiles: nothing,
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
  const services = { mirrors, outbox, close: async () => {} } as RunnerDeps;
  const runner = await startRunner({
    link,
    folder,
    deps: services,
    concurrency,
    log: () => {},
    ...life,
    finishTries: 3,
  });
  return { runner, reports, holds };
}
