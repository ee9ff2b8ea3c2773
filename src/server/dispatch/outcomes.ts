import type { FastifyBaseLogger } from 'fastify';
import type { Runner } from '../auth/runners.ts';
import type { Database, Transaction } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Outcome, Receipt, WorkKind } from '../../shared/protocol/index.ts';
import type { LapsedClaim } from '../queue/lapses.ts';
import * as queue from '../queue/queue.ts';
import { holdJob, type ClaimedJob } from '../queue/leases.ts';
import { askForPack, noteKept } from '../lifecycle/kept-builds.ts';
import { awaitUploads } from '../lifecycle/uploads.ts';
import { traceSpans } from '../tracing/traces.ts';
import { addLine, findLog } from '../streams/logs.ts';
import type { SearchedReport } from './log-expressions.ts';
import { leavesFiles } from './files.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { messageFor } from './log-intake.ts';

const alwaysPossible: readonly Outcome['kind'][] = ['lost', 'cut_short'];
/** Retry delay of a job while blob storage is unreachable. */
const storeAwayMs = 30_000;
const storeAway = 'Blob storage is unreachable. The job continues when it is reachable.';
/** Packing a smaller log would cost more than running a short build. */
const smallLog = 64n * 1024n;
export const packKind = 'pack_log';

export interface OutcomesParts {
  db: Database;
  ids: IdSource;
  kinds: Record<WorkKind, JobHandler>;
  context: (trx: Transaction) => JobContext;
  logBytes: number;
  accountConcurrency: number;
  log: FastifyBaseLogger;
}

export interface Outcomes {
  settle(trx: Transaction, runner: Runner, report: SearchedReport): Promise<Receipt>;
  lose(lost: LapsedClaim): Promise<void>;
  /** This server or the runner failed: the job is retried, or ends. */
  giveUp(trx: Transaction, job: ClaimedJob): Promise<void>;
}

export function createOutcomes({
  db,
  ids,
  kinds,
  context,
  logBytes,
  accountConcurrency,
  log,
}: OutcomesParts): Outcomes {
  /** The job is over, so its log is complete and can be packed. */
  const conclude = async (trx: Transaction, job: ClaimedJob, size?: bigint): Promise<void> => {
    await queue.remove(db, trx, job);
    if (accountConcurrency > 0) await db.announce(trx, queue.queueTopic); // the account may have another running job now
    if (kinds[job.kind as WorkKind].keepsLogOpen) return;
    if ((size ?? (await findLog(trx, job.subject_id))?.size ?? 0n) <= smallLog) return;
    await queue.enqueue(db, trx, ids, { kind: packKind, subjectId: job.subject_id, accountId: job.account_id });
  };

  const giveUp = async (trx: Transaction, job: ClaimedJob): Promise<void> => {
    const { retry } = await kinds[job.kind as WorkKind].lose(context(trx), job);
    if (retry) await queue.release(db, trx, job);
    else await conclude(trx, job);
  };

  return {
    giveUp,

    async lose(lost) {
      await db.transaction(async (trx) => {
        const job = await holdJob(db, trx, lost.claim);
        if (job) await giveUp(trx, job);
      });
    },

    async settle(
      trx,
      { holder },
      {
        claim,
        outcome,
        logSize,
        spans = [],
        stepStates,
        services,
        lines,
        file,
        sha,
        kept,
        uploads,
        output,
        usage,
        inputs,
        isAgain,
        isInLog = false,
      },
    ) {
      const job = await holdJob(db, trx, claim);
      if (job?.holder !== holder) return { gone: true };
      const stored = (await findLog(trx, job.subject_id))?.size ?? 0n;
      if (Number(stored) !== logSize) return { expected: Number(stored) };
      const kind = kinds[job.kind as WorkKind];
      if (!alwaysPossible.includes(outcome.kind) && !kind.outcomes.includes(outcome.kind))
        throw new ApiError('invalid_format', 'outcome');
      // A runner cannot choose a result: otherwise it could name another account's blob.
      if (outcome.kind === 'compiled' && outcome.digest !== job.stored_blob)
        throw new ApiError('not_found', 'outcome[digest]');
      if (outcome.kind === 'store_away' && job.cancelled === 0) {
        if (job.run_after === 0n) await addLine(db, trx, job.subject_id, storeAway); // the first time
        await queue.putOff(db, trx, job, Date.now() + storeAwayMs);
        return { taken: true };
      }
      if (job.kind === 'run_suite') traceSpans(context(trx), job.subject_id, spans);
      if (outcome.kind === 'lost') {
        log.error({ holder, kind: job.kind, why: outcome.message }, 'a runner failed a job; it will be retried');
        await giveUp(trx, job);
        return { taken: true };
      }
      const isCut = outcome.kind === 'cut_short';
      if (isCut) {
        const message = [messageFor(outcome.reason, logBytes), kind.whenCut ?? ''].join(' ').trim();
        await addLine(db, trx, job.subject_id, message);
      }
      for (const line of lines ?? []) await addLine(db, trx, job.subject_id, line);
      if (isAgain && job.cancelled === 0) {
        await queue.putOff(db, trx, job, 0);
        return { taken: true };
      }
      const settled = await kind.settle(context(trx), job, outcome, {
        file,
        sha,
        output,
        stepStates,
        services,
        usage,
        inputs,
        isInLog,
      });
      if (settled?.isStale) {
        await giveUp(trx, job);
        return { taken: true };
      }
      if (kept && job.kind === 'run_suite') {
        const { vault, shellHours: hours } = context(trx);
        const forSuites = await leavesFiles(trx, job.subject_id);
        const { isLeaving = false, ...files } = kept;
        await noteKept(context(trx), vault, { buildId: job.subject_id, holder, hours, forSuites, files });
        if (isLeaving && forSuites)
          askForPack(context(trx), { ...files, holder, id: job.subject_id, packable: 1 }, job);
      }
      if (uploads && job.kind === 'run_suite' && outcome.kind !== 'cancelled' && job.cancelled === 0)
        await awaitUploads(trx, { claim, holder, buildId: job.subject_id, accountId: job.account_id });
      await conclude(trx, job, isCut ? undefined : stored);
      return { taken: true };
    },
  };
}
