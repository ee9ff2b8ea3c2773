import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before } from 'node:test';
import { pino } from 'pino';
import { createDispatch, type Dispatch } from '../../src/server/dispatch/dispatch.ts';
import type { ArtifactLimits } from '../../src/server/dispatch/job-handler.ts';
import type {
  CommitReport,
  FinishReport,
  Kept,
  Order,
  Outcome,
  Receipt,
  Wish,
  Work,
  ClaimSignal,
} from '../../src/shared/protocol/index.ts';
import { openSigningKeys } from '../../src/server/identity/keys.ts';
import { createIdentity } from '../../src/server/identity/tokens.ts';
import { configuringFrom } from '../../src/server/resources/config-repository.ts';
import { routes } from '../../src/server/resources/index.ts';
import type { Store } from '../../src/cli/operator/store.ts';
import type { Runner } from '../../src/server/auth/runners.ts';
import type { TestDatabase } from './databases.ts';
import { describeService, describeServiceOnOne, type Service, type ServiceOptions } from './service.ts';

const patient = new AbortController().signal;

export interface ScriptedLimits {
  logBytes?: number;
  cacheBytes?: number;
  accountConcurrency?: number;
  timeoutSeconds?: number;
  artifacts?: ArtifactLimits;
  unpackedBytes?: number;
  /** The clock of tokens, and their issuer. */
  now?: () => number;
  isSampled?: () => boolean;
  issuer?: () => string;
}

/**
 * A runner that does what the test says, without any work of its own. It calls the server's half as the real runner
 * does.
 */
export class ScriptedRunner {
  readonly self: Runner;
  #dispatch: Dispatch | undefined;

  constructor(dispatch?: Dispatch, self: Runner = { holder: 'scripted' }) {
    this.#dispatch = dispatch;
    this.self = self;
  }

  static async start(store: Store, limits?: ScriptedLimits): Promise<ScriptedRunner> {
    const runner = new ScriptedRunner();
    await runner.begin(store, limits);
    return runner;
  }

  async begin(
    store: Store,
    {
      logBytes = 512 * 1024 * 1024,
      cacheBytes = 1024 ** 3,
      accountConcurrency = 0,
      timeoutSeconds = 1,
      artifacts = { mostFiles: 10_000, mostBytes: 1024 ** 3 },
      unpackedBytes = 1024 ** 3,
      now = Date.now,
      issuer = () => 'https://ci.example.org',
      isSampled = () => false,
    }: ScriptedLimits = {},
  ): Promise<void> {
    const limits = { memoryBytes: 1, processes: 1, timeoutSeconds };
    const unpacked = { bytes: unpackedBytes, entries: 1 };
    const log = pino({ level: 'silent' });
    const sizes = { unpacked, artifacts, logBytes, cacheBytes, isSampled };
    const configure = configuringFrom(routes, { ...store, buildTimeout: timeoutSeconds }, '');
    const keys = await openSigningKeys({ ...store, now, onError: assert.ifError });
    await keys.close(); // the server of the test replaces them
    const identity = createIdentity({ keys, issuer, now });
    const api = () => ({ url: issuer(), listens: { host: '127.0.0.1', port: 443 } });
    const parts = { limits, ...sizes, accountConcurrency, identity, api, configure, log };
    this.#dispatch = await createDispatch({ ...store, ...parts });
  }

  get dispatch(): Dispatch {
    if (!this.#dispatch) throw new Error('the runner works only inside tests');
    return this.#dispatch;
  }

  /** Another runner of the same server. */
  beside(name: string): ScriptedRunner {
    return new ScriptedRunner(this.dispatch, { holder: name });
  }

  async take<Kind extends Work['kind']>(
    kind: Kind,
    wish: Pick<Wish, 'location'> = {},
  ): Promise<Task<Extract<Work, { kind: Kind }>>> {
    const order = await this.dispatch.next(this.self, { claim: randomUUID(), ...wish }, patient);
    // It extends no claims. A test on a slow machine may have a job for longer than a claim lasts.
    await this.dispatch.holderLeaves(this.self.holder);
    assert.equal(order?.work.kind, kind);
    return new Task(this, order as Order & { work: Extract<Work, { kind: Kind }> });
  }

  /** Whatever is next. */
  async takeNext(): Promise<Task> {
    const order = await this.dispatch.next(this.self, { claim: randomUUID() }, patient);
    await this.dispatch.holderLeaves(this.self.holder);
    return new Task(this, order ?? assert.fail('there is no job'));
  }

  /** There is no job at this moment. */
  async assertIdle(): Promise<void> {
    assert.equal(await this.dispatch.next(this.self, { claim: randomUUID(), holdMs: 0 }, patient), undefined);
  }
}

type DefineWithRunner = (service: Service, runner: ScriptedRunner, database: TestDatabase) => void;
type RunnerOptions = ServiceOptions & ScriptedLimits;

/** Runs the same tests against a service on each database, with a scripted runner. */
export function describeWithRunner(name: string, define: DefineWithRunner, options: RunnerOptions = {}): void {
  describeService(name, withRunner(define, options), options);
}

/** The same where the database does not matter (see `onOneDatabase`). */
export function describeWithRunnerOnOne(name: string, define: DefineWithRunner, options: RunnerOptions = {}): void {
  describeServiceOnOne(name, withRunner(define, options), options);
}

function withRunner(define: DefineWithRunner, options: RunnerOptions) {
  return (service: Service, database: TestDatabase): void => {
    const runner = new ScriptedRunner();
    before(() => runner.begin(service.store, { issuer: () => service.address, ...options }));
    after(() => runner.dispatch.close());
    define(service, runner, database);
  };
}

export class Task<W extends Work = Work> {
  readonly #runner: ScriptedRunner;
  readonly order: Order & { work: W };
  #size: number;

  constructor(runner: ScriptedRunner, order: Order & { work: W }) {
    this.#runner = runner;
    this.order = order;
    this.#size = order.logOffset;
  }

  async writeLog(text: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(text as string);
    assert.deepEqual(await this.send(this.#size, bytes), { taken: true });
    this.#size += bytes.length;
  }

  send(offset: number, bytes: Uint8Array): Promise<Receipt> {
    return this.#runner.dispatch.log(this.#runner.self, { claim: this.order.claim, offset, bytes });
  }

  /** Sends files, as frames. */
  keep(content: AsyncIterable<Buffer>): Promise<Kept> {
    return this.#runner.dispatch.storeFiles(this.#runner.self, this.order.claim, content);
  }

  async hears(): Promise<ClaimSignal | undefined> {
    return (await this.#runner.dispatch.extend(this.#runner.self, { claims: [this.order.claim] }, patient))[
      this.order.claim
    ];
  }

  finish(outcome: Outcome): Promise<Receipt> {
    return this.finishAt(this.#size, outcome);
  }

  /** Reports the end with this size of the log, where the server did not take everything. */
  finishAt(logSize: number, outcome: Outcome, more: Partial<FinishReport> = {}): Promise<Receipt> {
    return this.#runner.dispatch.finish(this.#runner.self, { claim: this.order.claim, outcome, logSize, ...more });
  }

  async exit(status: number, more: Partial<FinishReport> = {}): Promise<void> {
    assert.deepEqual(await this.finishAt(this.#size, { kind: 'exited', status }, more), { taken: true });
  }

  async fetched(commit: Partial<CommitReport> = {}): Promise<void> {
    assert.deepEqual(await this.finish({ kind: 'fetched', commit: { ...aCommit, ...commit } }), { taken: true });
  }
}

export const aCommit: CommitReport = {
  sha: 'c0ffee'.padEnd(40, '0'),
  message: 'Mend the sluice\n',
  authorName: 'Ada',
  authorEmail: 'ada@example.org',
  authoredDate: '2026-03-01T10:00:00-05:00',
  committerName: 'Grace',
  committerEmail: 'grace@example.org',
  committedDate: '2026-03-02T11:30:00+05:30',
  branches: ['main'],
  tags: [],
  files: ['sluice.c'],
  ref: 'refs/heads/main',
  branch: 'main',
  overwritten: false,
  defaultHead: 'this',
};
