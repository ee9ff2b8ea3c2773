import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DiskFullError } from '../../src/shared/lib/disk-reserve.ts';
import type { FinishReport, Link, SuiteOrder } from '../../src/shared/protocol/index.ts';
import { startRunner } from '../../src/runner/runner.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { openRunnerDeps } from '../../src/runner/runner-deps.ts';
import { noShells } from '../support/no-shells.ts';
import { temporaryFolder } from '../support/databases.ts';
import { archiveOf } from '../support/software.ts';

const patient = new AbortController().signal;

describe('a runner on a disk without room above its reserve', () => {
  let folder: string;
  let deps: RunnerDeps;
  let bytes: Buffer;
  const reports: FinishReport[] = [];
  const orders: SuiteOrder[] = [];
  const link: Link = {
    async next({ claim }) {
      const work = orders.shift();
      return work && { claim, work, logOffset: 0, logLimit: 1_000_000 };
    },
    log: async () => ({ taken: true }),
    steps: () => assert.fail('there are no steps'),
    stepPoint: () => assert.fail('no build goes on'),
    services: () => assert.fail('there are no services'),
    tests: () => assert.fail('there are no tests'),
    summary: () => assert.fail('there is no summary'),
    extend: async (_, signal) => pause(100, {}, { signal }),
    async finish(report) {
      reports.push(report);
      return { taken: true };
    },
    read: async () =>
      (async function* content() {
        yield bytes;
      })(),
    store: async () => ({ gone: true }),
    storeFiles: async () => ({ gone: true }),
    access: async () => undefined,
    leave: async () => {},
    registry: async () => undefined,
    gone: async () => [],
    stale: async () => [],
    polls: async () => [],
    ...noShells,
    uploaded: () => assert.fail('nothing waits'),
    polled: async () => {},
  };
  before(async () => {
    folder = temporaryFolder();
    bytes = await archiveOf({ 'bin/tool': 'tool\n' }, 'tar.zst');
    deps = await openRunnerDeps({
      folder,
      link,
      concurrency: 1,
      network: 'none',
      isolation: 'off',
      dependencyCacheBytes: 1e9,
      imageBytes: 1,
      imageCacheBytes: 0,
      fetchTimeoutMs: 60_000,
      checkoutBytes: 1024 ** 3,
      diskReserveBytes: 1e15,
      log: () => {},
    });
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  const software = (): SuiteOrder['software'] => [
    { digest: createHash('sha256').update(bytes).digest('hex'), prefix: '/srv/tool' },
  ];

  test('does not fetch software, and leaves nothing of it', async () => {
    await assert.rejects(deps.dependencyCache.take(software(), patient), DiskFullError);
    assert.deepEqual(readdirSync(join(folder, 'software')), []);
  });

  test('says so of the work that needs it', async () => {
    orders.push({
      kind: 'run_suite',
      source: { projectId: '1', repositoryUrl: '' },
      sha: '',
      steps: [{ name: 'command', command: 'true', when: 'passed' }],
      environment: {},
      secrets: [],
      limits: { memoryBytes: 1e9, processes: 100, timeoutSeconds: 60 },
      software: software(),
      prefixes: [],
      launches: [],
    });
    const checkouts = {
      of: async () => ({ path: folder, misses: [], [Symbol.dispose]: () => {} }),
      missesIn: () => undefined,
      forget: async () => {},
    };
    const runner = await startRunner({
      link,
      folder,
      deps: { ...deps, checkouts },
      concurrency: 1,
      log: () => {},
      once: { idleMs: 1000 },
    });
    await runner.done;
    assert.deepEqual(
      reports.map(({ outcome }) => outcome),
      [{ kind: 'cut_short', reason: 'disk_full' }],
    );
  });
});
