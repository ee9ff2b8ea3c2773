import type { FastifyBaseLogger } from 'fastify';
import type { Services } from '../api/call.ts';
import type { Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { repeatedly } from '../lib/repeatedly.ts';
import { freeLooksOf } from '../lifecycle/poll-claims.ts';
import * as protocol from '../protocol/index.ts';
import type {
  ClaimSignal,
  Demand,
  Finished,
  FinishReport,
  KeptLayer,
  LogChunk,
  Order,
  OrderOrLooks,
  Receipt,
  TestBatch,
  TestReceipt,
  UploadReport,
  Wanted,
  WorkKind,
} from '../protocol/index.ts';
import * as queue from '../queue/queue.ts';
import { checkConnection } from './check-connection.ts';
import { compileDependency } from './compile-dependency.ts';
import { demandFor } from './demand.ts';
import { fetchCommit } from './fetch-commit.ts';
import { createConfiguring, type Configure } from './configuring.ts';
import { createFinishing } from './finishing.ts';
import { goneProjects } from './gone-projects.ts';
import { staleLayers } from './stale-layers.ts';
import { endUploads } from './held-builds.ts';
import { heldRequests } from './held-requests.ts';
import { createAsking } from './asking.ts';
import type { ArtifactLimits, JobContext, BuildLimits, JobHandler, UnpackLimits } from './job-handler.ts';
import { logIntake } from './log-intake.ts';
import { createLooks, type Looks } from './looks.ts';
import { createOrdering } from './ordering.ts';
import { createPacking } from './packing.ts';
import { foldCache } from './fold-cache.ts';
import { pushDeploy } from './push-deploy.ts';
import { registryOf } from './images.ts';
import { runnerBlobs, type RunnerBlobs } from './runner-blobs.ts';
import { runSuite } from './run-suite.ts';
import { createShells, type Shells } from './shells.ts';
import { createSettling } from './settling.ts';
import { keyOf } from './sources.ts';
import { startSweeping } from './sweeping.ts';
import { testIntake } from './test-intake.ts';

const kinds: Record<WorkKind, JobHandler> = {
  fetch_commit: fetchCommit,
  run_suite: runSuite,
  compile_dependency: compileDependency,
  push_deploy: pushDeploy,
  check_connection: checkConnection,
  fold_cache: foldCache,
};

export interface DispatchParts extends Services {
  subscriptions: Subscriptions;
  blobs: Blobs;
  limits: BuildLimits;
  unpacked: UnpackLimits;
  artifacts: ArtifactLimits;
  /** How much the caches of a project may have together, in bytes. */
  cacheBytes: number;
  /** The longest log, in bytes. */
  logBytes: number;
  /** The most jobs of one account at a time, on all runners together; 0 for no limit. */
  accountConcurrency: number;
  /** Applies the file of a repository that configures its project. */
  configure: Configure;
  /** Called with the number of bytes that were added to a log. */
  onLogStored?: (bytes: number) => void;
  log: FastifyBaseLogger;
  /** How long a request for work is held, if it is not the usual time. */
  idleHoldMs?: number | undefined;
}

/**
 * The server's side of the protocol with runners. Every change is in the store before the answer is sent, and nothing is
 * kept here, so any server can answer any runner. A runner whose token was revoked is refused as unauthorized.
 */
export interface Dispatch extends RunnerBlobs, Pick<Looks, 'looks' | 'looked'>, Shells {
  next(runner: Runner, claim: string, signal: AbortSignal, holdMs?: number): Promise<Order | undefined>;
  nextOrLooks(runner: Runner, wanted: Wanted, signal: AbortSignal): Promise<OrderOrLooks>;
  demand(runner: Runner): Promise<Demand>;
  log(runner: Runner, chunk: LogChunk): Promise<Receipt>;
  tests(runner: Runner, batch: TestBatch): Promise<TestReceipt>;
  extend(runner: Runner, claims: string[], signal: AbortSignal): Promise<Record<string, ClaimSignal>>;
  finish(runner: Runner, report: FinishReport): Promise<Finished>;
  /** The files of a build that waited on this runner are here, or lost. */
  uploaded(runner: Runner, report: UploadReport): Promise<Receipt>;
  /** The private key for a suite; undefined when the runner does not hold that claim. */
  key(runner: Runner, claim: string): Promise<string | undefined>;
  /** The credentials for the registry of an image; undefined when the runner does not hold that claim. */
  registry(runner: Runner, claim: string): Promise<protocol.RegistryAccess | undefined>;
  /** Which of these projects are deleted, or not for this runner any more. */
  goneProjects(runner: Runner, projects: readonly string[]): Promise<string[]>;
  /** Of these layers of caches, those that the runner needs no more. */
  staleLayers(runner: Runner, layers: readonly KeptLayer[]): Promise<KeptLayer[]>;
  /** The holders whose requests are held here. */
  waiting(): Iterable<string>;
  /** The runner takes no more orders under these claims: its held requests are answered at once. */
  leaveOff(runner: Runner, claims: readonly string[]): void;
  /** The holder is known to have ended: its claims are lost now. A new runner of this name gets work again. */
  gone(holder: string): Promise<void>;
  /** From now on this holder gets no more work, or nobody does. Resolves when orders that were being given are stored. */
  quiet(holder?: string): Promise<void>;
  /** Whether nobody gets work here any more. */
  isQuiet(): boolean;
  /** Whether a holder has claims, or may have some. */
  isBusy(holder: string): Promise<boolean>;
  /** Resolves when a holder has no claims, or when the signal is aborted. */
  untilIdle(holder: string, signal: AbortSignal): Promise<void>;
  /** The server closes: held requests are answered at once. */
  letGo(): void;
  /** The holder works on without a server for a while: its claims are kept longer. */
  leave(holder: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Announcements can be lost, and those of another process may not arrive at all. So the server regularly looks for work
 * and for revoked tokens by itself, once for all requests that it holds.
 */
const lookEvery = 1000;
/** A claim that ends is announced; this is for announcements that were lost. */
const lookForClaimsEveryMs = 5000;

export async function createDispatch(parts: DispatchParts): Promise<Dispatch> {
  const { db, ids, observers, vault, subscriptions, blobs, disk, logBytes, accountConcurrency, log } = parts;
  const { limits, unpacked, artifacts, cacheBytes, idleHoldMs = protocol.idleHoldSeconds * 1000 } = parts;
  const configured = createConfiguring({ db, ids, observers, configure: parts.configure });
  const intake = logIntake({
    db,
    disk,
    limit: logBytes,
    onStored: parts.onLogStored,
  });
  const tests = testIntake(db, disk);
  const allowed = { limits, unpacked, artifacts, cacheBytes, shellHours: parts.shellHours };
  const context = (trx: Transaction): JobContext => ({ db, trx, ids, observers, vault, ...allowed });
  const held = heldRequests(db);
  const shared = { db, ids, kinds, context, logBytes, accountConcurrency, log };
  const settling = createSettling(shared);
  const ordering = createOrdering({ ...shared, giveUp: (trx, job) => settling.giveUp(trx, job) });
  const looks = createLooks({ db, ids, observers, vault, held, holdMs: idleHoldMs, log });
  const asking = createAsking({ db, ordering, held, looks, holdMs: idleHoldMs });
  const packing = createPacking({ db, blobs, log });
  const sweeping = await startSweeping({ db, kinds: Object.keys(kinds), settling, packing, log });
  const attend = async (): Promise<void> => {
    await held.check();
    await asking.check();
    await looks.check();
  };
  const attending = repeatedly(lookEvery, attend, (error) => {
    if (!isUnavailable(error)) log.error({ err: error }, 'looking after the requests of runners failed');
  });
  /** A database that is unreachable says nothing about it. */
  const isBusy = async (holder: string): Promise<boolean> => {
    const held = await queue.heldBy(db, holder).catch(() => undefined);
    return held?.length !== 0;
  };

  return {
    ...runnerBlobs({ db, ids, blobs, artifacts, unpacked, cacheBytes }),
    ...createShells({ db, ids, vault, subscriptions, relay: parts.relay, held, holdMs: idleHoldMs }),
    looks: (runner, room, signal) => looks.looks(runner, room, signal),
    looked: (runner, reports) => looks.looked(runner, reports),
    demand: (runner) => demandFor(db, runner, accountConcurrency),
    next: (runner, claim, signal, holdMs) => asking.next(runner, claim, signal, holdMs),
    nextOrLooks: (runner, wanted, signal) => asking.nextOrLooks(runner, wanted, signal),
    log: ({ holder }, chunk) => intake.take(holder, chunk),
    tests: ({ holder }, batch) => tests.take(holder, batch),
    finish: createFinishing({ db, held, settling, ordering, configured }),
    uploaded: (runner, report) => endUploads(db, context, runner, report),
    key: ({ holder }, claim) => keyOf(db.read, vault, holder, claim),
    registry: ({ holder }, claim) => registryOf(db.read, vault, holder, claim),
    goneProjects: (runner, projects) => goneProjects(db, runner, projects),
    staleLayers: (runner, layers) => staleLayers(db, runner, layers),

    async extend(runner, claims, signal) {
      const { holder } = runner;
      using request = held.hold(runner, signal);
      using watch = subscriptions.watch(queue.claimsTopic);
      const deadline = performance.now() + protocol.holdSeconds * 1000;
      const extending = { holder, claims, seconds: protocol.claimSeconds };
      if (claims.length > 0) await db.transaction((trx) => queue.extend(db, trx, extending));
      for (;;) {
        const signals = signalsFor(claims, await queue.heldBy(db, holder));
        const left = deadline - performance.now();
        if (Object.keys(signals).length > 0 || left <= 0 || request.signal.aborted) return signals;
        await watch.changed(Math.min(left, lookEvery), request.signal);
        request.throwIfRefused();
      }
    },

    waiting: () => held.holders(),
    leaveOff: ({ holder }, claims) => held.leave(holder, claims),
    quiet: (holder) => held.quiet(holder),
    isQuiet: () => held.isQuiet(''),
    isBusy,
    async untilIdle(holder, signal) {
      using watch = subscriptions.watch(queue.claimsTopic, queue.endedClaims(holder));
      while (!signal.aborted && (await isBusy(holder))) await watch.changed(lookForClaimsEveryMs, signal);
    },
    letGo: () => held.letGo(),
    leave: (holder) => db.transaction((trx) => queue.leave(db, trx, holder)),

    async gone(holder) {
      held.end(holder);
      held.resume(holder);
      await db.transaction(async (trx) => {
        await queue.lapse(db, trx, holder);
        await freeLooksOf(trx, holder);
      });
      await sweeping.sweep();
    },

    async close() {
      asking.close();
      looks.close();
      await attending.stop();
      await sweeping.close();
      await packing.close();
    },
  };
}

/** For each named claim whether it is lost, and for each claim that the runner holds whether its job is cancelled. */
function signalsFor(claims: readonly string[], held: readonly Readonly<JobRow>[]): Record<string, ClaimSignal> {
  const still = new Set(held.map(({ claim }) => claim));
  const signals: Record<string, ClaimSignal> = {};
  for (const claim of claims) if (!still.has(claim)) signals[claim] = 'gone';
  for (const { claim, cancelled } of held) if (claim !== null && cancelled) signals[claim] = 'cancel';
  return signals;
}
