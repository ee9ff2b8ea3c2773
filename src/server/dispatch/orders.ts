import { sql } from 'kysely';
import { ableTo } from '../auth/runner-heartbeats.ts';
import { holdRunner, type Runner } from '../auth/runners.ts';
import { isUniqueViolation, type Transaction } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { slotOf, type SlotKind } from '../../shared/domain/runner-slots.ts';
import * as protocol from '../../shared/protocol/index.ts';
import type { Order, WorkKind } from '../../shared/protocol/index.ts';
import type { Serving } from '../queue/waiting.ts';
import { nameBlobs } from '../queue/claimed-blobs.ts';
import { claim } from '../queue/claims.ts';
import { changeKind, claimAgain, jobOf, type ClaimedJob } from '../queue/leases.ts';
import { isLeftTo } from '../queue/tried.ts';
import * as queue from '../queue/queue.ts';
import { spareKind } from '../lifecycle/reuse-checks.ts';
import { findLog } from '../streams/logs.ts';
import { isAwaited } from './awaited.ts';
import type { Later } from './job-handler.ts';
import { blobsOf } from './runner-blobs.ts';
import type { OutcomesParts } from './outcomes.ts';

/** Fetches first: a fetch is short, and its result is visible at once. */
const slotsInOrder: readonly SlotKind[] = ['fetches', 'builds'];
/** After losing this many claims to other requests, this request retries later. */
const mostOvertaken = 20;
const mostPutOff = 500;
/** The end of a compile makes waiting jobs due at once. This is for a server that dies while it postpones a job. */
export const longestPutOff = 5 * 60 * 1000;

/** `again`: the job needed no order. `overtaken`: another runner's claim was first. */
type Attempt = Order | PutOff | 'again' | 'overtaken' | undefined;

interface PutOff extends Later {
  job: bigint;
}

export interface OrdersParts extends OutcomesParts {
  giveUp: (trx: Transaction, job: ClaimedJob) => Promise<void>;
}

export interface OrderRequest {
  runner: Runner;
  name: string;
  /** Whether the claim may exist already, because an earlier response was lost. */
  mayBeGiven?: boolean;
}

export interface Orders {
  serving(runner: Runner): Serving[];
  /** Undefined if there is no order, or it is no longer wanted. */
  now(request: OrderRequest, isWanted?: () => boolean): Promise<Order | undefined>;
}

function kindsFor(slot: SlotKind): readonly WorkKind[] {
  return protocol.workKinds.filter((kind) => slotOf(kind) === slot);
}

/** From now on it is a build like others. */
const beginSpare = (trx: Transaction, job: ClaimedJob): Promise<ClaimedJob> =>
  changeKind(trx, job, 'run_suite' satisfies WorkKind);

const waitingJob = { account: sql.ref('waiting.account_id'), tags: sql.ref<string>('waiting.tags') };

export function createOrders(parts: OrdersParts): Orders {
  const { db, ids, kinds, context, logBytes, accountConcurrency, log, giveUp } = parts;

  /**
   * A search for each kind of slot, so that an account at its limit of builds can still fetch. Spare builds are searched
   * for if nothing else waits for the runner.
   */
  const serving = (runner: Runner): Serving[] => {
    const slots = runner.slot ? [runner.slot] : slotsInOrder;
    const all = slots.map((slot) => servingOf(runner, slot));
    const builds = slots.includes('builds') ? servingOf(runner, 'builds') : undefined;
    return builds ? [...all, { ...builds, kinds: [spareKind], counted: builds.kinds }] : all;
  };

  const servingOf = (runner: Runner, slot: SlotKind): Serving => ({
    kinds: kindsFor(slot),
    mostRunning: accountConcurrency,
    boundAs: runner.boundAs,
    tags: runner.tags,
    location: runner.location,
    isLeaving: runner.isLeaving,
    isLeftToIt: isLeftTo(runner.holder, ableTo(db, waitingJob)),
  });

  const claimFor = async (
    trx: Transaction,
    { runner, name }: OrderRequest,
  ): Promise<ClaimedJob | 'overtaken' | undefined> => {
    const claiming = { holder: runner.holder, seconds: protocol.claimSeconds, turn: ids.next(), name };
    for (const one of serving(runner)) {
      const taken = await claim(db, trx, { ...one, ...claiming });
      if (taken !== undefined) return taken;
    }
    return undefined;
  };

  const orderFor = async (trx: Transaction, job: ClaimedJob, runner: Runner): Promise<Attempt> => {
    const kind = job.kind === spareKind ? 'run_suite' : (job.kind as WorkKind);
    const work = await kinds[kind].order(context(trx), job, runner);
    if (!work) {
      await queue.remove(db, trx, job);
      return 'again';
    }
    if ('awaits' in work) {
      await queue.putOff(db, trx, job, Date.now() + longestPutOff);
      return { job: job.id, awaits: work.awaits };
    }
    if ('until' in work) {
      await queue.putOff(db, trx, job, work.until, work.location);
      return { job: job.id, awaits: [] };
    }
    if (job.kind === spareKind) await beginSpare(trx, job);
    const named = blobsOf(work);
    if (named.length > 0) await nameBlobs(trx, job.claim, named);
    const stored = await findLog(trx, job.subject_id);
    return {
      claim: job.claim,
      work,
      logOffset: Number(stored?.size ?? 0n),
      logLines: Number(stored?.line_breaks ?? 0n),
      logLimit: logBytes,
    };
  };

  /**
   * The awaited compile may have ended while this job was being postponed, without finding the job. So this checks
   * again. By now the end of the compile is committed, or will find the waiting job.
   */
  const checkOnceMore = async ({ job, awaits }: PutOff): Promise<void> => {
    if (!(await isAwaited(db, awaits))) await db.transaction((trx) => queue.makeDue(db, trx, job));
  };

  /** At most one job. */
  const attempt = async (request: OrderRequest, isWanted: () => boolean): Promise<Attempt> => {
    const { runner, name, mayBeGiven = false } = request;
    let taken: ClaimedJob | undefined;
    try {
      return await db.transaction(async (trx) => {
        taken = undefined;
        if (!isWanted()) return undefined;
        const { isDraining } = await holdRunner(db, trx, runner);
        if (isDraining && !mayBeGiven) return undefined;
        const given = mayBeGiven ? await jobOf(trx, name) : undefined;
        if (given && given.holder !== runner.holder) return undefined;
        const job = given ?? (await claimFor(trx, request));
        if (job === undefined || job === 'overtaken') return job;
        taken = job;
        return orderFor(trx, job, runner);
      });
    } catch (error) {
      // The runner repeated its request while the first one was in progress. It gets the same order again.
      if (isUniqueViolation(error) && !mayBeGiven && (await jobOf(db.read, name)))
        return attempt({ ...request, mayBeGiven: true }, isWanted);
      if (!taken || isUnavailable(error)) throw error; // the job itself is not at fault
      const { kind, subject_id: subject } = taken;
      log.error({ err: error, kind, subject: String(subject) }, 'preparing a job for a runner failed');
      await setAside(taken);
      return 'again'; // the next job must not wait for the next query
    }
  };

  /** A job without a possible order must not block other jobs. Its claim was rolled back with the order. */
  const setAside = async (unordered: ClaimedJob): Promise<void> => {
    await db.transaction(async (trx) => {
      const job = await claimAgain(db, trx, unordered, protocol.claimSeconds);
      if (job) await giveUp(trx, job.kind === spareKind ? await beginSpare(trx, job) : job);
    });
  };

  const now = async (request: OrderRequest, isWanted = () => true): Promise<Order | undefined> => {
    for (let overtaken = 0, waiting = 0; overtaken < mostOvertaken && waiting < mostPutOff;) {
      const order = await attempt(request, isWanted);
      if (order === undefined) return undefined;
      if (order === 'again') continue;
      if (order === 'overtaken') overtaken += 1;
      else if ('awaits' in order) {
        await checkOnceMore(order);
        waiting += 1;
      } else return order;
    }
    return undefined;
  };

  return { serving, now };
}
