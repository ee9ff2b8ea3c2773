import { holdRunner, type Runner } from '../auth/runners.ts';
import { isUniqueViolation, type Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { Finished, FinishReport, Receipt } from '../protocol/index.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import type { JudgedReport } from './configuring.ts';
import { UnconfiguredError } from './fetch-commit.ts';
import type { HeldRequests } from './held-requests.ts';
import type { Attempt, Ordering } from './ordering.ts';
import type { Settling } from './settling.ts';

export interface FinishingParts {
  db: Database;
  held: HeldRequests;
  settling: Pick<Settling, 'settle'>;
  ordering: Pick<Ordering, 'within' | 'goOn' | 'now'>;
  accountConcurrency: number;
  /** Applies the file that configures the project of a fetched commit. */
  configured: (runner: Runner, report: FinishReport) => Promise<JudgedReport>;
}

/** Settles the outcome of a job. The receipt brings the runner's next order along, if there is work. */
export function createFinishing({ db, held, settling, ordering, accountConcurrency, configured }: FinishingParts) {
  /** The outcome and the next order, in one transaction. */
  const settleAndOrder = async (runner: Runner, report: JudgedReport, name: string): Promise<Finished> => {
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
      // The next job is at fault, not this one: so this one is settled alone.
      receipt = await db.transaction((trx) => settling.settle(trx, runner, report));
      next = 'taken' in receipt ? 'again' : undefined;
    }
    const order = await ordering.goOn(next, { runner, name });
    return order ? { ...receipt, next: order } : receipt;
  };

  const finish = async (runner: Runner, report: JudgedReport): Promise<Finished> => {
    using _ = held.hold(runner);
    const next = held.isQuiet(runner.holder) ? undefined : report.next;
    // With a limit for each account, a claim may have to wait for another one, and must hold no locks meanwhile.
    if (next !== undefined && accountConcurrency === 0) return await settleAndOrder(runner, report, next);
    const receipt = await db.transaction((trx) => settling.settle(trx, runner, report));
    const isTaken = next !== undefined && 'taken' in receipt;
    const order = isTaken ? await ordering.now({ runner, name: next }) : undefined;
    return order ? { ...receipt, next: order } : receipt;
  };

  return async (caller: Runner, report: FinishReport): Promise<Finished> => {
    const runner = { ...caller, place: report.place };
    try {
      return await finish(runner, report);
    } catch (error) {
      if (!(error instanceof UnconfiguredError)) throw error;
      return finish(runner, await configured(runner, report));
    }
  };
}
