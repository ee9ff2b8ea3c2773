import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type {
  FilesOrder,
  KeptFiles,
  Outcome,
  PackOrder,
  StepPoint,
  StepState,
  SuiteOrder,
} from '../../src/shared/protocol/index.ts';
import { openCacheStore } from '../../src/runner/cache-store.ts';
import type { RunnerDeps, Task } from '../../src/runner/job-runner.ts';
import { openKeptBuilds, type KeptBuilds } from '../../src/runner/kept-builds.ts';
import { packFiles, unpackFiles } from '../../src/runner/pack-files.ts';
import { runSuite } from '../../src/runner/run-suite.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import type { Blobs } from './caching.ts';
import { longestWait } from './pauses.ts';

export const source = { projectId: '7', repositoryUrl: '', privateKey: '' };

/** A runner that has nothing but what suites with files of others need. */
export class FilesRunner {
  readonly folder: string;
  readonly blobs: Blobs;
  readonly logged: string[] = [];
  /** What it said about done steps, which the server would store. */
  readonly points: StepPoint[] = [];
  readonly #sandboxes: Sandboxes;
  deps: RunnerDeps | undefined;
  #runs = 0;

  constructor(folder: string, sandboxes: Sandboxes, blobs: Blobs) {
    this.folder = folder;
    this.blobs = blobs;
    this.#sandboxes = sandboxes;
  }

  /** Opens what an earlier runner kept in the folder, too. */
  async open(): Promise<this> {
    mkdirSync(join(this.folder, 'checkout/tracked'), { recursive: true });
    writeFileSync(join(this.folder, 'checkout/tracked/file'), 'of the commit\n');
    writeFileSync(join(this.folder, 'checkout/top'), 'of the commit\n');
    await this.#sandboxes.adopt(join(this.folder, 'checkout'));
    const log = (line: string): void => void this.logged.push(line);
    const disk = { room: async () => 2 ** 40 };
    const shared = { link: this.blobs, sandboxes: this.#sandboxes, disk, log };
    const caches = await openCacheStore({ folder: join(this.folder, 'caches'), ...shared });
    const trees = await openCacheStore({ folder: join(this.folder, 'files'), ...shared, unpack: unpackFiles });
    const kept = await openKeptBuilds({ folder: join(this.folder, 'kept'), caches, trees, disk, log });
    const checkout = { path: join(this.folder, 'checkout'), misses: [], [Symbol.dispose]: () => {} };
    const waiting = { isStuck: () => false, hasCache: () => false, complete: async () => false };
    this.deps = {
      sandboxes: this.#sandboxes,
      checkouts: { of: async () => checkout },
      dependencyCache: { take: async () => ({ mounts: [], placesAt: () => [], [Symbol.dispose]: () => {} }) },
      outbox: { begin: () => ({ ...waiting, [Symbol.asyncDispose]: async () => {} }) },
      mirrors: { difference: async () => ({ changed: [], lessened: [] }) },
      operatorVariables: () => ({}),
      caches,
      trees,
      kept,
      link: {
        read: this.blobs.read.bind(this.blobs),
        store: this.blobs.store.bind(this.blobs),
        stepPoint: async (point: StepPoint) => {
          this.points.push(point);
          return { taken: true };
        },
      },
      log,
    } as unknown as RunnerDeps;
    return this;
  }

  get kept(): KeptBuilds {
    return this.deps?.kept ?? assert.fail('the runner is not open');
  }

  async build(command: string, changes: Partial<SuiteOrder> = {}) {
    const order = {
      kind: 'run_suite',
      source,
      sha: 'c'.repeat(40),
      isFork: false,
      steps: [{ name: 'command', command, when: 'passed' }],
      environment: {},
      secrets: [],
      limits: { memoryBytes: 1024 ** 3, processes: 256, timeoutSeconds: longestWait / 1000 },
      software: [],
      prefixes: [],
      launches: [],
      ...changes,
    } satisfies SuiteOrder;
    const written: Buffer[] = [];
    let files: KeptFiles | undefined;
    const output = { from: 0, to: 0 };
    let states: StepState[] = [];
    const task = {
      id: `build-${(this.#runs += 1)}`,
      logLines: 0,
      writeLog: (text: Buffer | string) => void written.push(Buffer.from(text)),
      signal: new AbortController().signal,
      spans: { begin: () => {}, end: () => {} },
      onSteps: (now: readonly StepState[]) => void (states = now.map((state) => ({ ...state }))),
      onKept: (kept: KeptFiles) => void (files = kept),
      onOutput: (at: 'from' | 'to') => void (output[at] = Buffer.concat(written).length),
    } as unknown as Task;
    const outcome = await runSuite(this.deps ?? assert.fail(), order, task);
    const said = Buffer.concat(written);
    return { outcome, text: said.subarray(output.from, output.to).toString(), said: said.toString(), files, states };
  }

  /** Builds and passes, and tells what another suite is to begin with. */
  async left(command: string, changes: Partial<SuiteOrder> = {}): Promise<FilesOrder> {
    const keep = { hours: 0, accountId: '1', forSuites: 'passed' } as const;
    const { outcome, said, files } = await this.build(command, { keep, ...changes });
    assert.deepEqual(outcome, { kind: 'exited', status: 0 }, said);
    return { suite: 'first', build: '77', kept: files ?? assert.fail(`nothing was kept: ${this.logged.join('\n')}`) };
  }

  pack({ kept }: FilesOrder, mostBytes = 1024 ** 3): Promise<Outcome> {
    const order: PackOrder = { kind: 'pack_files', source, ...(kept ?? { name: '', key: '' }), mostBytes };
    const task = { id: `pack-${(this.#runs += 1)}`, signal: new AbortController().signal } as Task;
    return packFiles(this.deps ?? assert.fail(), order, task);
  }

  /** The files as another runner gets them. */
  async packed(files: FilesOrder, name = '77'): Promise<FilesOrder> {
    const outcome = await this.pack(files);
    assert.ok(outcome.kind === 'packed', JSON.stringify(outcome));
    return { suite: files.suite, build: '77', packed: { name, digest: outcome.digest, bytes: 1 } };
  }
}
