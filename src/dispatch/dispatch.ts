import type { FastifyBaseLogger } from 'fastify';
import type { Services } from '../api/call.ts';
import { checkRunner, holdRunner, type Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import { isUniqueViolation, type Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { repeatedly } from '../lib/repeatedly.ts';
import { watchForSetBack } from '../lib/set-back.ts';
import { freeLooksOf } from '../lifecycle/poll-claims.ts';
import { hurryStrandedPolls } from '../lifecycle/polls.ts';
import * as protocol from '../protocol.ts';
import type {
  ClaimSignal,
  Demand,
  Finished,
  FinishReport,
  LogChunk,
  Order,
  OrderOrLooks,
  Receipt,
  Wanted,
  WorkKind,
} from '../protocol.ts';
import { watchClaims } from '../queue/lapses.ts';
import * as queue from '../queue/queue.ts';
import { hurryStranded } from '../queue/stranded.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import { packLog } from '../streams/pack-log.ts';
import { checkConnection } from './check-connection.ts';
import { compileDependency } from './compile-dependency.ts';
import { demandFor } from './demand.ts';
import { fetchCommit } from './fetch-commit.ts';
import { goneProjects } from './gone-projects.ts';
import { heldRequests } from './held-requests.ts';
import { artifactIntake, type ArtifactIntake } from './artifact-intake.ts';
import type { ArtifactLimits, JobContext, BuildLimits, JobHandler, UnpackLimits } from './job-handler.ts';
import { logIntake } from './log-intake.ts';
import { createLooks, type Looks } from './looks.ts';
import { createOrdering, longestPutOff, type Attempt } from './ordering.ts';
import { pushDeploy } from './push-deploy.ts';
import { registryOf } from './images.ts';
import { runnerBlobs, type RunnerBlobs } from './runner-blobs.ts';
import { runSuite } from './run-suite.ts';
import { createSettling, packKind } from './settling.ts';
import { keyOf } from './sources.ts';
import { waitingLines } from './waiting-line.ts';

const kinds: Record<WorkKind, JobHandler> = {
  fetch_commit: fetchCommit,
  run_suite: runSuite,
  compile_dependency: compileDependency,
  push_deploy: pushDeploy,
  check_connection: checkConnection,
};

export interface DispatchParts extends Services {
  subscriptions: Subscriptions;
  blobs: Blobs;
  limits: BuildLimits;
  unpacked: UnpackLimits;
  artifacts: ArtifactLimits;
  /** So long may a log become. */
  logBytes: number;
  /** How many jobs of one account run at once, over all runners; 0 for as many as there is room for. */
  accountConcurrency: number;
  /** Told how many bytes were added to a log. */
  onLogStored?: (bytes: number) => void;
  log: FastifyBaseLogger;
  /** How long a request for work is held, if it is not the usual time. */
  idleHoldMs?: number | undefined;
}

/**
 * The server's half of the conversation with runners. What it does is in the store when it answers; it keeps nothing of
 * its own, so any server can answer any runner. A runner whose token stops working is refused as unauthorized.
 */
export interface Dispatch extends RunnerBlobs, ArtifactIntake, Pick<Looks, 'looks' | 'looked'> {
  next(runner: Runner, claim: string, signal: AbortSignal, holdMs?: number): Promise<Order | undefined>;
  nextOrLooks(runner: Runner, wanted: Wanted, signal: AbortSignal): Promise<OrderOrLooks>;
  demand(runner: Runner): Promise<Demand>;
  log(runner: Runner, chunk: LogChunk): Promise<Receipt>;
  extend(runner: Runner, claims: string[], signal: AbortSignal): Promise<Record<string, ClaimSignal>>;
  finish(runner: Runner, report: FinishReport): Promise<Finished>;
  /** The private key for a suite; undefined when the runner does not hold that claim. */
  key(runner: Runner, claim: string): Promise<string | undefined>;
  /** The credentials for the registry of an image; undefined when the runner does not hold that claim. */
  registry(runner: Runner, claim: string): Promise<protocol.RegistryAccess | undefined>;
  /** Of these projects, those that the runner has no more business with. */
  goneProjects(runner: Runner, projects: readonly string[]): Promise<string[]>;
  /** The holders whose requests wait here, and who therefore are there. */
  waiting(): Iterable<string>;
  /** The holder takes no more orders under these names: its requests are answered at once. */
  leaveOff(runner: Runner, claims: readonly string[]): void;
  /** Everything a holder had is lost, and known to be. The next one of this name gets work again. */
  gone(holder: string): Promise<void>;
  /** Gives this holder no more work, or nobody any; resolves when what was given is in the store. */
  quiet(holder?: string): Promise<void>;
  /** Whether nobody gets work here any more. */
  isQuiet(): boolean;
  /** Whether a holder has claims. */
  isBusy(holder: string): Promise<boolean>;
  /** The server closes: requests that are held are answered at once. */
  letGo(): void;
  /** The holder goes on while no server answers it: its claims are kept for so long. */
  leave(holder: string): Promise<void>;
  close(): Promise<void>;
}

const sweepEvery = 2000;
/**
 * Announcements can be lost, and those of another process may not arrive at all: so often the server looks for work and
 * for revoked tokens by itself, once for all whose requests it holds.
 */
const lookEvery = 1000;
/** Made once: an error of its own for each request would cost more than the rest of it. */
const answered = new Error('the request is answered');
/** Longer than it ever takes. */
const packSeconds = 600;

export async function createDispatch(parts: DispatchParts): Promise<Dispatch> {
  const { db, ids, vault, subscriptions, blobs, disk, limits, unpacked, artifacts, logBytes, accountConcurrency, log } =
    parts;
  const { idleHoldMs = protocol.idleHoldSeconds * 1000 } = parts;
  const intake = logIntake({ db, disk, limit: logBytes, onStored: parts.onLogStored });
  const context = (trx: Transaction): JobContext => ({ db, trx, ids, vault, limits, unpacked, artifacts });
  const packing = new Set<Promise<void>>();
  const held = heldRequests(db);

  const claims = watchClaims(db, {
    claimMs: (kind) => (kind === packKind ? packSeconds : protocol.claimSeconds) * 1000,
    atStart: protocol.holdSeconds * 1000,
    everyMs: sweepEvery,
  });
  await claims.look();

  /** Packing is work of its own: it is in the queue, so that a crash does not leave a log unpacked for ever. */
  const pack = async (): Promise<void> => {
    for (;;) {
      const job = await db.transaction((trx) =>
        queue.claimAny(db, trx, { holder: 'server', kind: packKind, seconds: packSeconds }),
      );
      if (!job) return;
      try {
        await packLog(db, blobs, job.subject_id);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        // The store of the blobs is away. With the next sweep it is tried again, by whichever server is first.
        await db.transaction((trx) => queue.release(db, trx, job));
        return;
      }
      await db.transaction((trx) => queue.remove(db, trx, job));
    }
  };
  const packSoon = (): void => {
    const work = pack().catch((error: unknown) => log.error({ err: error }, 'packing a log failed'));
    packing.add(work);
    void work.finally(() => packing.delete(work));
  };

  const shared = { db, ids, kinds, context, logBytes, accountConcurrency, log };
  const settling = createSettling(shared);
  const ordering = createOrdering({ ...shared, giveUp: (trx, job) => settling.giveUp(trx, job) });
  const lines = waitingLines(db, queue.queueTopic);
  const looks = createLooks({ db, ids, vault, held, holdMs: idleHoldMs, log });

  /** The outcome, and the next order with the same commit. */
  const settleAndOrder = async (runner: Runner, report: FinishReport, name: string): Promise<Finished> => {
    let claimed: ClaimedJob | undefined;
    const onClaim = (job: ClaimedJob): void => void (claimed = job);
    let receipt: Receipt;
    let next: Attempt;
    try {
      [receipt, next] = await db.transaction(async (trx) => {
        claimed = undefined;
        const { isDraining } = await holdRunner(db, trx, runner);
        const settled = await settling.settle(trx, runner, report);
        if (isDraining || !('taken' in settled)) return [settled, undefined];
        return [settled, await ordering.within(trx, { runner, name, onClaim })];
      });
    } catch (error) {
      if ((!claimed && !isUniqueViolation(error)) || isUnavailable(error)) throw error;
      // What is wrong with the next job is nothing against this one.
      receipt = await db.transaction((trx) => settling.settle(trx, runner, report));
      next = 'taken' in receipt ? 'again' : undefined;
    }
    const order = await ordering.goOn(next, { runner, name });
    return order ? { ...receipt, next: order } : receipt;
  };

  /** Whether a runner that gets no more work has none left. Repositories that it was to look at are free again. */
  const endsNow = async ({ holder }: Runner): Promise<boolean> => {
    if ((await queue.heldBy(db, holder)).length > 0) return false;
    await db.transaction((trx) => freeLooksOf(trx, holder));
    return true;
  };

  const hasBeenSetBack = watchForSetBack();
  const sweep = async (): Promise<void> => {
    if (hasBeenSetBack()) {
      await hurryStranded(db, { kinds: Object.keys(kinds), longestWait: longestPutOff });
      await hurryStrandedPolls(db);
    }
    for (const job of await claims.look()) {
      log.warn({ holder: job.holder, kind: job.kind, subject: String(job.subject_id) }, 'claim expired');
      // What servers do themselves is simply done again; only the work of runners has something to lose.
      if (!(job.kind in kinds)) await db.transaction((trx) => queue.release(db, trx, job));
      else await settling.lose(job);
    }
    if (packing.size === 0 && (await queue.isAnyWaiting(db, [packKind]))) packSoon();
  };
  const sweeping = repeatedly(sweepEvery, sweep, (error) =>
    log.error({ err: error }, 'sweep of expired claims failed'),
  );
  const attend = async (): Promise<void> => {
    await held.check();
    await lines.check();
    await looks.check();
  };
  const attending = repeatedly(lookEvery, attend, (error) => {
    if (!isUnavailable(error)) log.error({ err: error }, 'looking after the requests of runners failed');
  });

  const next: Dispatch['next'] = async (runner, claim, signal, holdMs = idleHoldMs) => {
    if (held.isQuiet(runner.holder)) {
      const wasGiven = (await queue.jobOf(db.read, claim)) !== undefined; // and the answer was lost
      if (wasGiven) return ordering.now({ runner, name: claim, mayBeGiven: true });
      await held.whileQuiet(signal);
      return undefined;
    }
    using asking = held.hold(runner, signal, claim);
    const isAny = () => queue.isWaiting(db, ordering.serving(runner));
    using place = lines.join(`${runner.boundAs ?? 'any'} ${runner.tags ?? ''}`, isAny);
    const deadline = performance.now() + holdMs;
    const isWanted = (): boolean => !asking.isOver;
    // It may have been given already, to a request whose answer was lost.
    const mayBeGiven = (await queue.jobOf(db.read, claim)) !== undefined;
    let order: Order | undefined;
    if (mayBeGiven || (await isAny())) order = await ordering.now({ runner, name: claim, mayBeGiven }, isWanted);
    while (!order && !asking.signal.aborted) {
      const patience = { ms: deadline - performance.now(), signal: asking.signal };
      if (patience.ms <= 0) break;
      // What is about to be committed cannot be looked for, but it can be claimed, with the same commit.
      order = await place.look(patience, async (isMore) => {
        if ((await checkRunner(db.read, runner)).isDraining) {
          asking.end('drained');
          isMore(true); // another runner looks
          return undefined;
        }
        const onClaim = ({ isLast = false }: ClaimedJob): void => isMore(!isLast);
        return ordering.now({ runner, name: claim, onClaim }, isWanted);
      });
    }
    if (order) return order;
    asking.throwIfRefused();
    if (asking.isDrained && (await endsNow(runner))) throw new protocol.DrainedError();
    return undefined;
  };

  return {
    ...runnerBlobs(db, blobs),
    ...artifactIntake({ db, ids, blobs, limits: artifacts }),
    looks: (runner, room, signal) => looks.looks(runner, room, signal),
    looked: (runner, reports) => looks.looked(runner, reports),

    demand: (runner) => demandFor(db, runner, accountConcurrency),

    next,

    async nextOrLooks(runner, { claim, room }, signal) {
      const waiting = new AbortController();
      const end = (): void => waiting.abort(answered); // by what comes first, or the caller has hung up
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
      const [order, taken] = await Promise.allSettled([
        next(runner, claim, waiting.signal).finally(end),
        looks.looks(runner, room, waiting.signal).finally(end),
      ]);
      // What one has found must not be lost because the other failed.
      const answer = {
        order: order.status === 'fulfilled' ? (order.value ?? null) : null,
        looks: taken.status === 'fulfilled' ? taken.value : [],
      };
      const failed = [order, taken].find((one) => one.status === 'rejected');
      if (failed && answer.order === null && answer.looks.length === 0) throw failed.reason;
      return answer;
    },

    log: ({ holder }, chunk) => intake.take(holder, chunk),

    async extend(runner, claims, signal) {
      const { holder } = runner;
      using asking = held.hold(runner, signal);
      using watch = subscriptions.watch(queue.claimsTopic);
      const deadline = performance.now() + protocol.holdSeconds * 1000;
      const extending = { holder, claims, seconds: protocol.claimSeconds };
      if (claims.length > 0) await db.transaction((trx) => queue.extend(db, trx, extending));
      for (;;) {
        const words = wordsOn(claims, await queue.heldBy(db, holder));
        const left = deadline - performance.now();
        if (Object.keys(words).length > 0 || left <= 0 || asking.signal.aborted) return words;
        await watch.changed(Math.min(left, lookEvery), asking.signal);
        asking.throwIfRefused();
      }
    },

    async finish(runner, report) {
      using _ = held.hold(runner);
      const next = held.isQuiet(runner.holder) ? undefined : report.next;
      // Where an account may have so many under way and no more, who claims may have to wait, and then holds nothing.
      if (next !== undefined && accountConcurrency === 0) return await settleAndOrder(runner, report, next);
      const receipt = await db.transaction((trx) => settling.settle(trx, runner, report));
      const isTaken = next !== undefined && 'taken' in receipt;
      const order = isTaken ? await ordering.now({ runner, name: next }) : undefined;
      return order ? { ...receipt, next: order } : receipt;
    },

    key: ({ holder }, claim) => keyOf(db.read, vault, holder, claim),

    registry: ({ holder }, claim) => registryOf(db.read, vault, holder, claim),

    goneProjects: (runner, projects) => goneProjects(db, runner, projects),

    waiting: () => held.holders(),
    leaveOff: ({ holder }, claims) => held.leave(holder, claims),
    quiet: (holder) => held.quiet(holder),
    isQuiet: () => held.isQuiet(''),
    isBusy: async (holder) => (await queue.heldBy(db, holder)).length > 0,
    letGo: () => held.letGo(),
    leave: (holder) => db.transaction((trx) => queue.leave(db, trx, holder)),

    async gone(holder) {
      held.end(holder);
      held.resume(holder);
      await db.transaction(async (trx) => {
        await queue.lapse(db, trx, holder);
        await freeLooksOf(trx, holder);
      });
      await sweep();
    },

    async close() {
      lines.close();
      looks.close();
      await attending.stop();
      await sweeping.stop();
      await Promise.all(packing);
    },
  };
}

/** Of those that were named: whether they are lost. Of all that are held, also by now: whether they are called off. */
function wordsOn(claims: readonly string[], held: readonly Readonly<JobRow>[]): Record<string, ClaimSignal> {
  const still = new Set(held.map(({ claim }) => claim));
  const words: Record<string, ClaimSignal> = {};
  for (const claim of claims) if (!still.has(claim)) words[claim] = 'gone';
  for (const { claim, cancelled } of held) if (claim !== null && cancelled) words[claim] = 'cancel';
  return words;
}
