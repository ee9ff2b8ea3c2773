import { randomInt } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import type { CallDeps } from '../api/call.ts';
import { recordHeartbeats, type Heartbeats } from '../auth/runner-heartbeats.ts';
import { findStandings, type Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Transaction } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { ApiError } from '../../shared/errors.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { noteServices } from '../lifecycle/build-services.ts';
import { checkKeptFiles } from '../lifecycle/kept-builds.ts';
import { noteSteps } from '../lifecycle/build-steps.ts';
import { notePoint } from '../lifecycle/step-points.ts';
import { releasePollsOf } from '../triggers/poll-claims.ts';
import type { ApiOrder, WorkKind } from '../../shared/protocol/index.ts';
import { claimsTopic, detachHolder, heldBy, holdJob, lapse } from '../queue/leases.ts';
import { endedClaims, endPauses } from '../queue/queue.ts';
import { serveCalls, type CallHandlers, type CallParts } from './calls.ts';
import { checkConnection } from './check-connection.ts';
import { checkInputs } from './check-inputs.ts';
import { compileDependency } from './compile-dependency.ts';
import { demandFor } from './demand.ts';
import { fetchCommit } from './fetch-commit.ts';
import type { Identity } from '../identity/tokens.ts';
import { createRepositoryConfig, type Configuring } from './repository-config.ts';
import { createConnections, type Connections } from './connections.ts';
import { createDispatcher } from './dispatcher.ts';
import { createExtensions } from './extensions.ts';
import { goneProjects } from './gone-projects.ts';
import { staleTrees } from './stale-trees.ts';
import { endUploads } from './held-builds.ts';
import type { ArtifactLimits, JobContext, BuildLimits, JobHandler, UnpackLimits } from './job-handler.ts';
import { createLogExpressions } from './log-expressions.ts';
import { logIntake } from './log-intake.ts';
import { createPolls } from './polls.ts';
import { createOrders } from './orders.ts';
import { startLogPacker } from './log-packer.ts';
import type { SearchThread } from '../streams/search.ts';
import { packFiles } from './pack-files.ts';
import { pushDeploy } from './push-deploy.ts';
import { registryOf } from './images.ts';
import { RunnerShares } from './runner-shares.ts';
import { runnerBlobs, type RunnerBlobs } from './runner-blobs.ts';
import { runSuite } from './run-suite.ts';
import { noteServiceData } from './services.ts';
import { createShells } from './shells.ts';
import { createOutcomes } from './outcomes.ts';
import { accessFor } from './sources.ts';
import { startCleanup } from './cleanup.ts';
import { takeSummary } from './summary-intake.ts';
import { testIntake } from './test-intake.ts';

/** Of so many reused builds, one runs all the same, on average. */
const oneIn = 50;

const kinds: Record<WorkKind, JobHandler> = {
  fetch_commit: fetchCommit,
  run_suite: runSuite,
  compile_dependency: compileDependency,
  push_deploy: pushDeploy,
  check_connection: checkConnection,
  check_inputs: checkInputs,
  pack_files: packFiles,
};

export interface DispatchParts extends CallDeps {
  subscriptions: Subscriptions;
  blobs: Blobs;
  searches: SearchThread;
  limits: BuildLimits;
  unpacked: UnpackLimits;
  artifacts: ArtifactLimits;
  /** Limit of all caches of a project. */
  cacheBytes: number;
  /** By default by chance. */
  isSampled?: JobContext['isSampled'] | undefined;
  logBytes: number;
  /** Limit of an account's running jobs on all runners together; 0 for no limit. */
  accountConcurrency: number;
  identity: Identity;
  api: () => ApiOrder;
  configure: Configuring;
  onLogStored?: (bytes: number) => void;
  log: FastifyBaseLogger;
  translate?: (error: unknown) => ApiError | undefined;
}

/**
 * The server's side of the protocol with runners. Every change is in the database before the response, and memory holds
 * no state, so any server can serve any runner. A runner with a revoked token is refused as unauthorized.
 */
export interface Dispatch extends CallHandlers, RunnerBlobs {
  /** A runner has called. It may still be refused. */
  came: Heartbeats['came'];
  demandRoom: Connections['demandRoom'];
  /** Serves the calls of a runner. */
  connect(socket: WebSocket, runner: Runner, wire: Duplex): void;
  /** Serves the runner's end of a shell. */
  connectShell(socket: WebSocket, runner: Runner, wire: Duplex, shell: bigint): void;
  /** The holder has ended: its claims are lost now. A new runner with the same name gets work again. */
  holderGone(holder: string): Promise<void>;
  /**
   * Gives no more work to this holder, or to any holder if none is named. Resolves when orders in progress are stored.
   */
  quiet(holder?: string): Promise<void>;
  /** Also true if the database is unreachable. */
  isBusy(holder: string): Promise<boolean>;
  /** Resolves when a holder has no claims, or on abort. */
  untilIdle(holder: string, signal: AbortSignal): Promise<void>;
  letGo(): void;
  /** The holder works without a server for a while, so its claims last longer. */
  holderLeaves(holder: string): Promise<void>;
  close(): Promise<void>;
}

/** Announcements can be lost. So the server polls for work and revoked tokens, once for all connected runners. */
const checkEveryMs = 1000;
/** Announcements of ended claims can be lost. */
const checkClaimsEveryMs = 5000;

export async function createDispatch(parts: DispatchParts): Promise<Dispatch> {
  const { db, ids, observers, vault, subscriptions, blobs, disk, logBytes, accountConcurrency, log } = parts;
  const { limits, unpacked, artifacts, cacheBytes } = parts;
  const configure = createRepositoryConfig({ db, ids, observers, configure: parts.configure });
  const searchLog = createLogExpressions({ db, blobs, searches: parts.searches });
  const intake = logIntake({
    db,
    disk,
    limit: logBytes,
    onStored: parts.onLogStored,
  });
  const tests = testIntake(db, disk);
  const allowed = {
    limits,
    unpacked,
    artifacts,
    cacheBytes,
    isSampled: parts.isSampled ?? (() => randomInt(oneIn) === 0),
    imageBuilds: parts.imageBuilds,
    identity: parts.identity,
    api: parts.api,
    shellHours: parts.shellHours,
    filesHours: parts.filesHours,
  };
  const context = (trx: Transaction): JobContext => ({ db, trx, ids, observers, vault, ...allowed });
  const shared = { db, ids, kinds, context, logBytes, accountConcurrency, log };
  const outcomes = createOutcomes(shared);
  const orders = createOrders({ ...shared, giveUp: (trx, job) => outcomes.giveUp(trx, job) });
  const dispatcher = createDispatcher(db, orders);
  const isQuiet = (holder: string): boolean => dispatcher.isQuiet(holder);
  const polls = createPolls({ db, ids, observers, vault, isQuiet, log });
  const logPacker = startLogPacker({ db, blobs, searches: parts.searches, log });
  const cleanup = await startCleanup({ db, kinds: Object.keys(kinds), outcomes, log });
  const attend = async (): Promise<void> => {
    const standings = await findStandings(db.read);
    connections.check(standings);
    await endPauses(db);
    await dispatcher.check(standings);
    await polls.check();
    await extensions.check();
  };
  const onTrouble = (error: unknown): void => {
    if (!isUnavailable(error)) log.error({ err: error }, 'checking the runners failed');
  };
  const shares = new RunnerShares();
  const extensions = createExtensions(db, onTrouble);
  const attending = repeatedly(checkEveryMs, attend, onTrouble);
  const isBusy = async (holder: string): Promise<boolean> => {
    const held = await heldBy(db.read, holder).catch(() => undefined);
    return held?.length !== 0;
  };

  const shells = createShells({ db, ids, vault, subscriptions, relay: parts.relay, isQuiet });
  const dispatch: Dispatch = {
    came: (runner, heartbeat) => heartbeats.came(runner, heartbeat),
    demandRoom: (runner) => connections.demandRoom(runner),
    connect: (socket, runner, wire) =>
      connections.open(socket, runner, wire, (of) => serveCalls(socket, runner, of, calls)),
    connectShell: (socket, runner, wire, shell) =>
      connections.open(socket, runner, wire, ({ signal }) => {
        shells.serve(socket, runner, shell, signal).catch(onTrouble);
      }),
    ...runnerBlobs({ db, ids, blobs, shares, artifacts, unpacked, cacheBytes }),
    ...shells.calls,
    polls: polls.polls,
    polled: polls.polled,
    demand: (runner) => demandFor(db, runner, accountConcurrency),
    next: dispatcher.next,
    leave: async ({ holder }, { claims }) => dispatcher.leave(holder, claims),
    log: ({ holder }, chunk) => intake.take(holder, chunk),
    steps: ({ holder }, { claim, steps }) =>
      db.transaction(async (trx) => {
        const job = await holdJob(db, trx, claim);
        if (job?.holder !== holder || job.kind !== 'run_suite') return { gone: true };
        await noteSteps(context(trx), job.subject_id, steps);
        return { taken: true };
      }),
    stepPoint: ({ holder }, point) =>
      db.transaction(async (trx) => {
        const job = await holdJob(db, trx, point.claim);
        if (job?.holder !== holder || job.kind !== 'run_suite') return { gone: true };
        return notePoint(context(trx), job, point);
      }),
    services: ({ holder }, { claim, services }) =>
      db.transaction(async (trx) => {
        const job = await holdJob(db, trx, claim);
        if (job?.holder !== holder || job.kind !== 'run_suite') return { gone: true };
        const builds = trx.selectFrom('builds').select(['id', 'project_id', 'services']);
        await noteServiceData(context(trx), job.subject_id, services);
        const build = await builds.where('id', '=', job.subject_id).executeTakeFirst();
        if (build) await noteServices(context(trx), build, services);
        return { taken: true };
      }),
    tests: ({ holder }, batch) => tests.take(holder, batch),
    summary: ({ holder }, summary) => takeSummary(db, disk, holder, summary),
    async finish(runner, report) {
      const configured = await configure(runner, report);
      const searched = await searchLog(runner, configured);
      return db.transaction((trx) => outcomes.settle(trx, runner, searched));
    },
    uploaded: (runner, report) => endUploads(db, context, runner, report),
    access: ({ holder }, { claim }) => accessFor(db.read, vault, holder, claim),
    registry: ({ holder }, asked) => registryOf(db.read, vault, holder, asked),
    gone: (runner, { projects }) => goneProjects(db, runner, projects),
    stale: (runner, { trees }) => staleTrees(db, runner, trees),
    kept: ({ holder }, asked) => checkKeptFiles(db.read, { ...asked, holder }),

    extend: extensions.extend,

    quiet: (holder) => dispatcher.quiet(holder),
    isBusy,
    async untilIdle(holder, signal) {
      using watch = subscriptions.watch(claimsTopic, endedClaims(holder));
      while (!signal.aborted && (await isBusy(holder))) await watch.changed(checkClaimsEveryMs, signal);
    },
    letGo: () => connections.letGo(),
    holderLeaves: (holder) => db.transaction((trx) => detachHolder(db, trx, holder)),

    async holderGone(holder) {
      connections.drop(holder);
      await dispatcher.leave(holder); // it must not get its lost jobs again
      dispatcher.resume(holder);
      await db.transaction(async (trx) => {
        await lapse(db, trx, holder);
        await releasePollsOf(db, trx, holder);
      });
      await cleanup.run();
    },

    async close() {
      await parts.configure.close();
      dispatcher.close();
      polls.close();
      extensions.close();
      await attending.stop();
      await heartbeats.close();
      await cleanup.close();
      await logPacker.close();
    },
  };
  const heartbeats = recordHeartbeats(db, () => connections.holders());
  const calls: CallParts = {
    handlers: dispatch,
    translate: parts.translate ?? (() => undefined),
    onTrouble: (error, name) => log.error({ err: error, call: name }, 'a call of a runner failed'),
  };
  const connections = createConnections({ shares, isQuiet: () => isQuiet('') });
  return dispatch;
}
