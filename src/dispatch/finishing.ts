import type { Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import type { Finished, FinishReport } from '../protocol/index.ts';
import type { JudgedReport } from './configuring.ts';
import { UnconfiguredError } from './fetch-commit.ts';
import type { HeldRequests } from './held-requests.ts';
import type { Ordering } from './ordering.ts';
import type { Settling } from './settling.ts';

export interface FinishingParts {
  db: Database;
  held: HeldRequests;
  settling: Pick<Settling, 'settle'>;
  ordering: Pick<Ordering, 'now'>;
  /** Applies the file that configures the project of a fetched commit. */
  configured: (runner: Runner, report: FinishReport) => Promise<JudgedReport>;
}

/** Settles the outcome of a job. The receipt brings the runner's next order along, if there is work. */
export function createFinishing({ db, held, settling, ordering, configured }: FinishingParts) {
  const finish = async (runner: Runner, report: JudgedReport): Promise<Finished> => {
    using _ = held.hold(runner);
    const next = held.isQuiet(runner.holder) ? undefined : report.next;
    const receipt = await db.transaction((trx) => settling.settle(trx, runner, report));
    if (next === undefined || !('taken' in receipt)) return receipt;
    const order = await ordering.now({ runner, name: next });
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
