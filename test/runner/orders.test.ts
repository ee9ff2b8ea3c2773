import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { keepReserve } from '../../src/shared/lib/disk-reserve.ts';
import { randomName } from '../../src/shared/lib/random-name.ts';
import type { FinishReport, Link, Order } from '../../src/shared/protocol/index.ts';
import { Claims } from '../../src/runner/claims.ts';
import { failureOf, RefusedError, RejectedError } from '../../src/runner/failures.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import { openOutbox } from '../../src/runner/outbox.ts';
import { perform as performOrder } from '../../src/runner/perform.ts';
import { startRunner } from '../../src/runner/runner.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { noShells } from '../support/no-shells.ts';
import { temporaryFolder } from '../support/folders.ts';

const strange = {
  kind: 'from_the_future',
  source: { projectId: '1', repositoryUrl: 'a@b:c', privateKey: 'a very private key' },
};

/** Gives a runner one order of a kind that it does not know, and answers its report. */
async function perform(t: TestContext, finish: Link['finish']): Promise<string> {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const said: string[] = [];
  const asked = Promise.withResolvers<void>();
  let orders = [{ claim: randomName(), work: strange as never, logOffset: 0, logLimit: 1_000_000 }] as Order[];
  const link: Link = {
    async next({ slot }, signal) {
      const [order] = slot === 'fetches' ? [] : orders;
      if (order) {
        orders = [];
        return order;
      }
      if (slot !== 'fetches') asked.resolve();
      await once(signal, 'abort');
      return undefined;
    },
    extend: async (_, signal) => (await once(signal, 'abort'), {}),
    log: () => assert.fail('there is nothing to say'),
    steps: () => assert.fail('there are no steps'),
    stepPoint: () => assert.fail('no build goes on'),
    services: () => assert.fail('there are no services'),
    tests: () => assert.fail('there are no tests'),
    summary: () => assert.fail('there is no summary'),
    finish,
    read: () => assert.fail('there is nothing to read'),
    store: () => assert.fail('there is nothing to store'),
    storeFiles: () => assert.fail('there is nothing to keep'),
    access: () => assert.fail('there is nothing to open'),
    leave: async () => {},
    registry: () => assert.fail('there is nothing to open'),
    gone: async () => [],
    stale: async () => [],
    polls: async () => [],
    ...noShells,
    uploaded: () => assert.fail('nothing waits'),
    polled: async () => {},
  };
  const mirrors = { collect: async () => ({ removed: 0, tidied: 0 }) } as unknown as Mirrors;
  const outbox = await emptyOutboxIn(folder);
  const deps = { mirrors, outbox, close: async () => {} } as RunnerDeps;
  const log = (message: string): void => void said.push(message);
  const runner = await startRunner({ link, folder, deps, concurrency: 1, log });
  await asked.promise;
  await runner.stop();
  return said.join('\n');
}

test('an order that a runner does not understand is told of by its kind, without its secrets', async (t) => {
  let report: FinishReport | undefined;
  const said = await perform(t, async (given) => {
    report = given;
    return { taken: true };
  });
  assert.deepEqual(report?.outcome, { kind: 'lost', message: 'this runner is too old for from_the_future' });
  assert.doesNotMatch(said, /private/);
});

test('a report that the server does not take is not repeated: the runner goes on to the next', async (t) => {
  let reports = 0;
  const said = await perform(t, async () => {
    reports += 1;
    throw new RejectedError('the server answered 403');
  });
  assert.equal(reports, 1);
  assert.match(said, /job abandoned: the server answered 403/);
});

test('a runner has so many places for builds, and others for fetches', async (t) => {
  for (const [concurrency, fetches] of [
    [1, 2],
    [3, 3],
  ] as const) {
    const folder = temporaryFolder();
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const begun = { builds: 0, fetches: 0 };
    const full = Promise.withResolvers<void>();
    /** There is always more to do, and none of it ends. */
    const link = {
      async next({ claim, slot = 'builds' }) {
        begun[slot] += 1;
        const work = slot === 'builds' ? strange : { ...strange, kind: 'check_connection' };
        return { claim, work: work as never, logOffset: 0, logLimit: 1_000_000 };
      },
      extend: async (_, signal) => (await once(signal, 'abort'), {}),
      async finish(_, signal) {
        if (begun.builds + begun.fetches === concurrency + fetches) full.resolve();
        await once(signal, 'abort');
        return { taken: true };
      },
      polls: async () => [],
      polled: async () => {},
      gone: async () => [],
      stale: async () => [],
      ...noShells,
    } as Partial<Link> as Link;
    const mirrors = { collect: async () => ({ removed: 0, tidied: 0 }) } as unknown as Mirrors;
    const outbox = await emptyOutboxIn(folder);
    const deps = { mirrors, outbox, close: async () => {} } as RunnerDeps;
    const runner = await startRunner({ link, folder, deps, concurrency, log: () => {} });
    await full.promise;
    await runner.stop();
    assert.deepEqual(begun, { builds: concurrency, fetches });
  }
});

test('only what the server itself refuses is final', () => {
  assert.ok(failureOf('/x', 401, '') instanceof RefusedError);
  assert.ok(failureOf('/x', 403, '{"error":{"claim":["invalid_format"]}}') instanceof RejectedError);
  for (const [status, text] of [
    [500, '{"error":{"generic":[]}}'],
    [404, '<html>no backend</html>'],
    [429, ''],
    [undefined, ''],
  ] as const) {
    const failure = failureOf('/x', status, text);
    assert.ok(!(failure instanceof RejectedError) && !(failure instanceof RefusedError), `${status}`);
  }
});

function emptyOutboxIn(folder: string) {
  return openOutbox({ folder: join(folder, 'outbox'), disk: keepReserve({ folders: [] }), log: () => {} });
}

test('a job of whose log the server rejects a part is ended, and is not told of as done', async (t) => {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const work = new AbortController();
  const mirrors = {
    async fetch({ writeLog }: { writeLog: (text: string) => void }) {
      writeLog('fetching\n');
      return { sha: 'a'.repeat(40) };
    },
  } as unknown as Mirrors;
  const deps = { mirrors, disk: keepReserve({ folders: [] }) } as RunnerDeps;
  const log = (): never => {
    throw new RejectedError('the server answered log with 403');
  };
  const order = {
    claim: randomName(),
    work: { kind: 'fetch_commit', source: {}, commitRef: 'main' },
    logOffset: 7,
    logLimit: 1000,
  } as unknown as Order;
  const link = { log } as Partial<Link> as Link;
  const report = await performOrder(order, {
    link,
    deps,
    spool: folder,
    work,
    ending: new AbortController().signal,
  });
  const message = 'the server rejected the log: the server answered log with 403';
  assert.deepEqual(report?.outcome, { kind: 'lost', message });
  assert.equal(report?.logSize, 7);
  assert.ok(work.signal.aborted, 'nothing goes on that could not be read');
});

test('a runner that has done many jobs waits for the next one with no more listeners than before', async () => {
  const ending = new AbortController();
  const claims = new Claims();
  const attending = claims.attend(async () => (await turn(), {}), ending.signal);
  const counts: number[] = [];
  for (let job = 0; job < 20; job += 1) {
    claims.hold(String(job));
    for (let at = 0; at < 3; at += 1) await turn();
    claims.release(String(job));
    for (let at = 0; at < 3; at += 1) await turn();
    counts.push(getEventListeners(ending.signal, 'abort').length);
  }
  assert.equal(counts.at(-1), counts[0]);
  ending.abort(new Error('stopped'));
  await attending;
});
