import { BusyThreadError, createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { memoized } from '../db/memo.ts';
import type { Database } from '../db/open.ts';
import type { SummaryToShow } from './summary-html.ts';

/*
 * Summaries become HTML in a thread, because a hostile one could take minutes. The libraries are loaded only there.
 */

const mostRemembered = 1000;

interface SummaryThread extends WorkerThread<SummaryToShow, string> {
  /** The builds whose summaries cannot be shown. The oldest comes first. */
  failed: Set<bigint>;
}

const makeThread = (): SummaryThread => {
  const limits = { mostOfOne: 8, mostOfAll: 64, timeoutMs: 5000 };
  return {
    ...createWorkerThread<SummaryToShow, string>('server/outputs/summary-worker.ts', limits),
    failed: new Set(),
  };
};

export const closeSummaryThread = (db: Database): Promise<void> => memoized(db, makeThread).close();

/** Null if it takes too long, is too large, or too many are requested at once. `account` is whose turn it takes. */
export async function showSummary(
  db: Database,
  { build, account, ...summary }: SummaryToShow & { build: bigint; account: bigint },
): Promise<string | null> {
  const thread = memoized(db, makeThread);
  if (thread.failed.has(build)) return null;
  try {
    return await thread.ask(account, summary);
  } catch (error) {
    if (error instanceof BusyThreadError) return null;
    for (const oldest of thread.failed) {
      if (thread.failed.size < mostRemembered) break;
      thread.failed.delete(oldest);
    }
    thread.failed.add(build);
    return null;
  }
}
