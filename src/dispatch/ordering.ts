import type { FastifyBaseLogger } from 'fastify';
import { holdRunner, type Runner } from '../auth/runners.ts';
import { isUniqueViolation, type Database, type Transaction } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { IdSource } from '../lib/ids.ts';
import * as protocol from '../protocol.ts';
import type { Order, WorkKind } from '../protocol.ts';
import type { Serving } from '../queue/accounts.ts';
import { nameBlobs } from '../queue/claimed-blobs.ts';
import * as queue from '../queue/queue.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import { findLog } from '../streams/logs.ts';
import { isAwaited } from './awaited.ts';
import type { JobContext, JobHandler, Later } from './job-handler.ts';
import { blobsOf } from './runner-blobs.ts';

/** Whoever is overtaken so often leaves it to those who are quicker, and looks again later. */
const mostOvertaken = 20;
/** More than these that have to wait are not looked at for one order. */
const mostPutOff = 500;
/**
 * The end of what work waits for lets it be claimed at once. Only a server that dies in the moment in which it puts
 * something off may miss that; so long it takes then.
 */
export const longestPutOff = 5 * 60 * 1000;

/** What became of an attempt at an order: `again` when the job came to nothing, or what was put off. */
export type Attempt = Order | PutOff | 'again' | 'overtaken' | undefined;

interface PutOff extends Later {
  job: bigint;
}

export interface OrderingParts {
  db: Database;
  ids: IdSource;
  kinds: Record<WorkKind, JobHandler>;
  context: (trx: Transaction) => JobContext;
  logBytes: number;
  accountConcurrency: number;
  log: FastifyBaseLogger;
  giveUp: (trx: Transaction, job: ClaimedJob) => Promise<void>;
}

/** One attempt of a runner at an order, under a claim of that name. */
export interface Asking {
  runner: Runner;
  name: string;
  /** Whether the name may have been given to it already, by an answer that was lost. */
  mayBeGiven?: boolean;
  /** Hears what was claimed, before it is committed. */
  onClaim?: (job: ClaimedJob) => void;
}

export interface Ordering {
  serving(runner: Runner): Serving & { kinds: readonly WorkKind[] };
  /** Claims one job at most and makes the order for it, within a transaction that holds the runner. */
  within(trx: Transaction, asking: Asking): Promise<Attempt>;
  /** The order whose turn it is, unless something else turned out in the meantime. */
  now(asking: Asking, isWanted?: () => boolean): Promise<Order | undefined>;
  /** The same, where a transaction of the caller's has made an attempt and is committed. */
  goOn(attempt: Attempt, asking: Asking): Promise<Order | undefined>;
}

export function createOrdering(parts: OrderingParts): Ordering {
  const { db, ids, kinds, context, logBytes, accountConcurrency, log, giveUp } = parts;

  const serving = ({ boundAs, tags }: Runner): ReturnType<Ordering['serving']> => ({
    kinds: protocol.workKinds,
    mostRunning: accountConcurrency,
    ...(boundAs === undefined ? {} : { boundAs }),
    tags,
  });

  const within = async (trx: Transaction, { runner, name, mayBeGiven, onClaim }: Asking): Promise<Attempt> => {
    const { holder } = runner;
    const claiming = { ...serving(runner), holder, seconds: protocol.claimSeconds, turn: ids.next(), name };
    const given = mayBeGiven ? await queue.jobOf(trx, name) : undefined;
    if (given && given.holder !== holder) return undefined;
    const job = given ?? (await queue.claim(db, trx, claiming));
    if (job === undefined || job === 'overtaken') return job;
    onClaim?.(job);
    const [work, stored] = await Promise.all([
      kinds[job.kind as WorkKind].order(context(trx), job),
      findLog(trx, job.subject_id),
    ]);
    if (!work) {
      await queue.remove(db, trx, job);
      return 'again';
    }
    if ('awaits' in work) {
      await queue.putOff(trx, job, Date.now() + longestPutOff);
      return { job: job.id, awaits: work.awaits };
    }
    const named = blobsOf(work);
    if (named.length > 0) await nameBlobs(trx, job.claim, named);
    return { claim: job.claim, work, logOffset: Number(stored?.size ?? 0n), logLimit: logBytes };
  };

  /**
   * Where transactions go on side by side, what something waits for may have ended while it was put off, and that end
   * cannot have seen it. So it is looked at once more: by then such an end is either over, or finds what waits.
   */
  const lookOnceMore = async ({ job, awaits }: PutOff): Promise<void> => {
    if (!db.inTurns && !(await isAwaited(db, awaits))) await db.transaction((trx) => queue.hurryJob(db, trx, job));
  };

  /** One transaction. */
  const attempt = async (asking: Asking, isWanted: () => boolean): Promise<Attempt> => {
    let taken: ClaimedJob | undefined;
    const onClaim = (job: ClaimedJob): void => {
      taken = job;
      asking.onClaim?.(job);
    };
    try {
      return await db.transaction(async (trx) => {
        taken = undefined;
        if (!isWanted()) return undefined;
        await holdRunner(db, trx, asking.runner);
        return within(trx, { ...asking, onClaim });
      });
    } catch (error) {
      // The same request, made again while the first was still being answered: what that one got is ordered once more.
      if (isUniqueViolation(error) && !asking.mayBeGiven && (await queue.jobOf(db.read, asking.name)))
        return attempt({ ...asking, mayBeGiven: true }, isWanted);
      if (!taken || isUnavailable(error)) throw error; // nothing is wrong with the job
      log.error(
        { err: error, kind: taken.kind, subject: String(taken.subject_id) },
        'preparing a job for a runner failed',
      );
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

  const goOn = async (first: Attempt, asking: Asking, isWanted = () => true): Promise<Order | undefined> => {
    for (let order = first, overtaken = 0, waiting = 0; ; order = await attempt(asking, isWanted)) {
      if (order === undefined) return undefined;
      if (order === 'again') continue;
      if (order === 'overtaken') overtaken += 1;
      else if ('awaits' in order) {
        await lookOnceMore(order);
        waiting += 1;
      } else return order;
      if (overtaken >= mostOvertaken || waiting >= mostPutOff) return undefined;
    }
  };

  return { serving, within, goOn, now: async (asking, isWanted) => goOn('again', asking, isWanted) };
}
