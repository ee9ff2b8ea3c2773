import type { FastifyBaseLogger } from 'fastify';
import type { Services } from '../api/call.ts';
import { checkRunner, holdRunner, type Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import { isUniqueViolation, type Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../errors.ts';
import { watchForSetBack } from '../lib/set-back.ts';
import * as protocol from '../protocol.ts';
import type { Finished, FinishReport, LogChunk, Order, Outcome, Receipt, ClaimSignal, WorkKind } from '../protocol.ts';
import { nameBlobs } from '../queue/claimed-blobs.ts';
import { watchClaims, type LapsedClaim } from '../queue/lapses.ts';
import * as queue from '../queue/queue.ts';
import { hurryStranded } from '../queue/stranded.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import { addLine, findLog } from '../streams/logs.ts';
import { packLog } from '../streams/pack-log.ts';
import { checkConnection } from './check-connection.ts';
import { compileDependency } from './compile-dependency.ts';
import { fetchCommit } from './fetch-commit.ts';
import { goneProjects } from './gone-projects.ts';
import { heldRequests } from './held-requests.ts';
import type { JobContext, BuildLimits, JobHandler, UnpackLimits } from './job-handler.ts';
import { logIntake, wordsFor } from './log-intake.ts';
import { pushDeploy } from './push-deploy.ts';
import { blobsOf, runnerBlobs, type RunnerBlobs } from './runner-blobs.ts';
import { runSuite } from './run-suite.ts';
import { keyOf } from './sources.ts';

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
  /** So long may a log become. */
  logBytes: number;
  /** How many jobs of one account run at once, over all runners; 0 for as many as there is room for. */
  accountConcurrency: number;
  log: FastifyBaseLogger;
}

/**
 * The server's half of the conversation with runners. What it does is in the store when it answers; it keeps nothing of
 * its own, so any server can answer any runner. A runner whose token stops working is refused as unauthorized.
 */
export interface Dispatch extends RunnerBlobs {
  next(runner: Runner, claim: string, signal: AbortSignal): Promise<Order | undefined>;
  log(runner: Runner, chunk: LogChunk): Promise<Receipt>;
  extend(runner: Runner, claims: string[], signal: AbortSignal): Promise<Record<string, ClaimSignal>>;
  finish(runner: Runner, report: FinishReport): Promise<Finished>;
  /** The private key for a suite; undefined when the runner does not hold that claim. */
  key(runner: Runner, claim: string): Promise<string | undefined>;
  /** Of these projects, those that the runner has no more business with. */
  goneProjects(runner: Runner, projects: readonly string[]): Promise<string[]>;
  /** Everything a holder had is lost, and known to be. */
  gone(holder: string): Promise<void>;
  close(): Promise<void>;
}

const sweepEvery = 2000;
/** Announcements can be lost, and those of another process may not arrive at all: so often a held request looks itself. */
const lookEvery = 1000;
/** Whoever is overtaken so often leaves it to those who are quicker, and looks again later. */
const mostOvertaken = 20;
/** After so long, work that waits for other work is looked at again. */
const laterMs = 2000;
/** More than these of them are not looked at for one order: they would be due again before the last was reached. */
const mostPutOff = 500;
/** How work of every kind can end. */
const alwaysPossible: readonly Outcome['kind'][] = ['lost', 'cut_short'];
/** Logs up to this size stay where they are: packing one costs more than running a short build. */
const smallLog = 64n * 1024n;
const packKind = 'pack_log';
/** Longer than it ever takes. */
const packSeconds = 600;

export async function createDispatch(parts: DispatchParts): Promise<Dispatch> {
  const { db, ids, vault, subscriptions, blobs, disk, limits, unpacked, logBytes, accountConcurrency, log } = parts;
  const intake = logIntake(db, disk, logBytes);
  const context = (trx: Transaction): JobContext => ({ db, trx, ids, vault, limits, unpacked });
  const packing = new Set<Promise<void>>();
  const held = heldRequests();

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
      await packLog(db, blobs, job.subject_id);
      await db.transaction((trx) => queue.remove(trx, job));
    }
  };
  const packSoon = (): void => {
    const work = pack().catch((error: unknown) => log.error({ err: error }, 'a log was not packed'));
    packing.add(work);
    void work.finally(() => packing.delete(work));
  };

  const servingOf = ({ boundAs }: Runner): { kinds: readonly WorkKind[]; mostRunning: number; boundAs?: bigint } => ({
    kinds: protocol.workKinds,
    mostRunning: accountConcurrency,
    ...(boundAs === undefined ? {} : { boundAs }),
  });

  /** The order whose turn it is, unless something else turned out in the meantime. */
  const orderNow = async (runner: Runner, name: string, isWanted = (): boolean => true): Promise<Order | undefined> => {
    for (let overtaken = 0, putOff = 0; overtaken < mostOvertaken && putOff < mostPutOff;) {
      const order = await tryOrder(runner, name, isWanted);
      if (order === 'overtaken') overtaken += 1;
      else if (order === 'later') putOff += 1;
      else if (order !== 'again') return order;
    }
    return undefined;
  };

  /** One transaction, which claims one job at most: `again` when that one came to nothing, `later` when it has to wait. */
  const tryOrder = async (
    runner: Runner,
    name: string,
    isWanted: () => boolean,
  ): Promise<Order | 'again' | 'later' | 'overtaken' | undefined> => {
    const { holder } = runner;
    let taken: ClaimedJob | undefined;
    const take = async (trx: Transaction): ReturnType<typeof tryOrder> => {
      taken = undefined;
      if (!isWanted()) return undefined;
      await holdRunner(db, trx, runner);
      const claiming = { ...servingOf(runner), holder, seconds: protocol.claimSeconds, turn: ids.next(), name };
      const given = await queue.jobOf(trx, name);
      if (given && given.holder !== holder) return undefined;
      const job = given ?? (await queue.claim(db, trx, claiming));
      if (job === undefined || job === 'overtaken') return job;
      taken = job;
      const work = await kinds[job.kind as WorkKind].order(context(trx), job);
      if (work === 'later') {
        await queue.putOff(trx, job, Date.now() + laterMs);
        return 'later';
      }
      if (!work) {
        await queue.remove(trx, job);
        return 'again';
      }
      const named = blobsOf(work);
      if (named.length > 0) await nameBlobs(trx, job.claim, named);
      const offset = (await findLog(trx, job.subject_id))?.size ?? 0n;
      return { claim: job.claim, work, logOffset: Number(offset), logLimit: logBytes };
    };
    try {
      return await db.transaction(take);
    } catch (error) {
      if (!taken || isUnavailable(error)) throw error; // nothing is wrong with the job
      // The same request, made again while the first was still being answered: what that one got is ordered once more.
      if (isUniqueViolation(error) && (await queue.jobOf(db.read, name))) return 'again';
      log.error({ err: error, kind: taken.kind, subject: String(taken.subject_id) }, 'an order could not be made');
      await setAside(taken);
      return 'again'; // whoever is next must not wait for the next look
    }
  };

  /** What cannot be ordered must not keep the others waiting. The claim on it was undone with the order. */
  const setAside = async (unordered: ClaimedJob): Promise<void> => {
    await db.transaction(async (trx) => {
      const job = await queue.claimAgain(db, trx, unordered, protocol.claimSeconds);
      if (job) await giveUp(trx, job);
    });
  };

  /** The job is over: whatever state that led to, its log is complete and can be packed. */
  const conclude = async (trx: Transaction, job: ClaimedJob): Promise<void> => {
    await queue.remove(trx, job);
    if (accountConcurrency > 0) await db.announce(trx, queue.queueTopic); // the account may have another one begun
    if (kinds[job.kind as WorkKind].keepsLogOpen) return;
    const size = (await findLog(trx, job.subject_id))?.size ?? 0n;
    if (size <= smallLog) return;
    await queue.enqueue(db, trx, ids, { kind: packKind, subjectId: job.subject_id, accountId: job.account_id });
  };

  const lose = async (lost: LapsedClaim): Promise<void> => {
    await db.transaction(async (trx) => {
      const job = await queue.holdJob(db, trx, lost.claim);
      if (job) await giveUp(trx, job);
    });
  };

  /** Our part was not done: somebody tries again, or it is over. */
  const giveUp = async (trx: Transaction, job: ClaimedJob): Promise<void> => {
    const { retry } = await kinds[job.kind as WorkKind].lose(context(trx), job);
    if (retry) await queue.release(db, trx, job);
    else await conclude(trx, job);
  };

  const settle = async (trx: Transaction, { holder }: Runner, report: FinishReport): Promise<Receipt> => {
    const job = await queue.holdJob(db, trx, report.claim);
    if (job?.holder !== holder) return { gone: true };
    const stored = Number((await findLog(trx, job.subject_id))?.size ?? 0n);
    if (stored !== report.logSize) return { expected: stored };
    const { outcome } = report;
    if (!alwaysPossible.includes(outcome.kind) && !kinds[job.kind as WorkKind].outcomes.includes(outcome.kind))
      throw new ApiError('invalid_format', 'outcome');
    // A runner makes a result, it does not choose one: another account's blob could be named as well.
    if (outcome.kind === 'compiled' && outcome.digest !== job.stored_blob)
      throw new ApiError('not_found', 'outcome[digest]');
    if (outcome.kind === 'lost') {
      log.error({ holder, kind: job.kind, why: outcome.message }, 'a runner could not do its work');
      await giveUp(trx, job);
    } else {
      const kind = kinds[job.kind as WorkKind];
      if (outcome.kind === 'cut_short') {
        const words = [wordsFor(outcome.reason, logBytes), kind.whenCut ?? ''].join(' ').trim();
        await addLine(db, trx, job.subject_id, words);
      }
      await kind.settle(context(trx), job, outcome);
      await conclude(trx, job);
    }
    return { taken: true };
  };

  const hasBeenSetBack = watchForSetBack();
  const sweep = async (): Promise<void> => {
    if (hasBeenSetBack()) await hurryStranded(db, { kinds: Object.keys(kinds), longestWait: laterMs });
    for (const job of await claims.look()) {
      log.warn({ holder: job.holder, kind: job.kind, subject: String(job.subject_id) }, 'whoever had this is gone');
      // What servers do themselves is simply done again; only the work of runners has something to lose.
      if (!(job.kind in kinds)) await db.transaction((trx) => queue.release(db, trx, job));
      else await lose(job);
    }
    if (packing.size === 0 && (await queue.isAnyWaiting(db, [packKind]))) packSoon();
  };
  let sweeping: Promise<void> | undefined;
  const timer = setInterval(() => {
    sweeping ??= sweep()
      .catch((error: unknown) => log.error({ err: error }, 'the queue was not swept'))
      .finally(() => (sweeping = undefined));
  }, sweepEvery);

  return {
    ...runnerBlobs(db, blobs),

    async next(runner, claim, signal) {
      using watch = subscriptions.watchEarly(queue.queueTopic);
      using asking = held.hold(runner.holder);
      const deadline = performance.now() + protocol.holdSeconds * 1000;
      // What is about to be committed cannot be looked for, but it can be claimed, with the same commit.
      // It may have been given already, to a request whose answer was lost.
      for (let isComing = (await queue.jobOf(db.read, claim)) !== undefined; ;) {
        if (isComing || (await queue.isWaiting(db, servingOf(runner)))) {
          const order = await orderNow(runner, claim, () => !asking.isOver);
          if (order) return order;
        }
        const left = deadline - performance.now();
        if (left <= 0 || signal.aborted || asking.isOver) return undefined;
        isComing = await watch.changed(Math.min(left, lookEvery), signal);
        if (signal.aborted) return undefined;
        await checkRunner(db.read, runner);
      }
    },

    log: ({ holder }, chunk) => intake.take(holder, chunk),

    async extend(runner, claims, signal) {
      const { holder } = runner;
      using watch = subscriptions.watch(queue.claimsTopic);
      const deadline = performance.now() + protocol.holdSeconds * 1000;
      const extending = { holder, claims, seconds: protocol.claimSeconds };
      if (claims.length > 0) await db.transaction((trx) => queue.extend(db, trx, extending));
      for (;;) {
        const words = wordsOn(claims, await queue.heldBy(db, holder));
        const left = deadline - performance.now();
        if (Object.keys(words).length > 0 || left <= 0 || signal.aborted) return words;
        await watch.changed(Math.min(left, lookEvery), signal);
        await checkRunner(db.read, runner);
      }
    },

    async finish(runner, report) {
      let receipt: Receipt | undefined;
      const isTaken = (): boolean => receipt !== undefined && 'taken' in receipt;
      const settled = db.transaction(async (trx) => (receipt = await settle(trx, runner, report)));
      // Where transactions take turns, the next order is made right behind and shares the commit.
      if (report.next === undefined || !db.inTurns) await settled;
      const next = report.next === undefined ? undefined : orderNow(runner, report.next, isTaken);
      const [answer, order] = await Promise.all([settled, next]);
      return order ? { ...answer, next: order } : answer;
    },

    key: ({ holder }, claim) => keyOf(db.read, vault, holder, claim),

    goneProjects: (runner, projects) => goneProjects(db, runner, projects),

    async gone(holder) {
      held.end(holder);
      await db.transaction((trx) => queue.lapse(db, trx, holder));
      await sweep();
    },

    async close() {
      clearInterval(timer);
      await sweeping;
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
