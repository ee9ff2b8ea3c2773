import { createYield } from '../../shared/lib/event-loop.ts';
import { orAborted } from '../../shared/lib/or-aborted.ts';
import { BusyThreadError } from '../../shared/lib/worker-thread.ts';
import type { LogRow } from '../db/schema.ts';
import { lineIndex } from './line-index.ts';
import { createFilterTest } from './log-filter.ts';
import { findLog } from './logs.ts';
import { requiredTexts } from './required-text.ts';
import {
  isSearchedWhole,
  readPacked,
  searchLog,
  type Match,
  type SearchParts,
  type SearchResult,
  type SearchWanted,
} from './search.ts';

/** `unreadable`: blob storage does not have the log now. `late`: the search ended before. */
type Found = Match | 'none' | 'unreadable' | 'late';

interface FilteredLog {
  id: bigint;
  filter: Uint8Array | null;
}

interface LogsWanted {
  expression: string;
  account: bigint;
  /** Aborted when the time is over or the caller has left. */
  signal: AbortSignal;
}

/** After this time in a log, the next account has its turn. */
const turnMs = 250;
const searchesOfAccount = 4;
/** Logs that wait for their turn to be read. */
const mostAhead = 64;

/**
 * Finds the first matching line of each log, in the order of the logs, and ends after one that is `late`. A log whose
 * filter excludes a match is not read.
 */
export async function* searchLogs<Log extends FilteredLog>(
  parts: SearchParts,
  batches: AsyncIterable<readonly Log[]>,
  wanted: LogsWanted,
): AsyncGenerator<{ log: Log; found: Found }> {
  using _ = countSearch(parts.searches.running, wanted.account);
  const mayMatch = createFilterTest(requiredTexts(wanted.expression));
  const yieldIfDue = createYield();
  const end = new AbortController();
  const search = { ...wanted, signal: AbortSignal.any([wanted.signal, end.signal]) };
  const searched = async (log: Log): Promise<{ log: Log; found: Found }> => {
    if (!wanted.signal.aborted && !mayMatch(log.filter)) return { log, found: 'none' };
    return { log, found: await firstMatch(parts, log.id, search) };
  };
  const coming: Promise<{ log: Log; found: Found }>[] = [];
  try {
    for await (const batch of batches) {
      for (const log of batch) {
        const next = searched(log);
        next.catch(() => {}); // the next await gets the error
        coming.push(next);
        if (coming.length <= mostAhead) continue;
        const given = await (coming.shift() as (typeof coming)[0]);
        yield given;
        if (given.found === 'late') return;
      }
      await yieldIfDue();
    }
    for (const next of coming) {
      const given = await next;
      yield given;
      if (given.found === 'late') return;
    }
  } finally {
    end.abort();
  }
}

function countSearch(running: Map<bigint, number>, account: bigint): Disposable {
  const count = running.get(account) ?? 0;
  if (count >= searchesOfAccount) throw new BusyThreadError('too many searches at once');
  running.set(account, count + 1);
  return {
    [Symbol.dispose]() {
      const left = (running.get(account) ?? 1) - 1;
      if (left === 0) running.delete(account);
      else running.set(account, left);
    },
  };
}

async function firstMatch(parts: SearchParts, id: bigint, wanted: LogsWanted): Promise<Found> {
  try {
    return await orAborted(readFirstMatch(parts, id, wanted), wanted.signal);
  } catch (error) {
    if (wanted.signal.aborted) return 'late';
    if (error instanceof BusyThreadError) throw error;
    // The log may have been deleted in between.
    return isGone(await findLog(parts.db, id)) ? 'none' : 'unreadable';
  }
}

async function readFirstMatch(parts: SearchParts, id: bigint, wanted: LogsWanted): Promise<Found> {
  const { expression, account, signal } = wanted;
  for (let from = 1; ;) {
    const endTurn = await parts.searches.reads.take(account, signal);
    try {
      const index = await lineIndex(parts, id);
      if (!index || isGone(index.log) || index.total === 0) return 'none';
      const search = { expression, from, limit: 1, account, milliseconds: turnMs };
      const { matches, next } = await (from === 1 && isSearchedWhole(index.log)
        ? searchPacked(parts, index.log.blob, search)
        : searchLog(parts, index, search));
      if (matches[0]) return matches[0];
      if (next === null) return 'none';
      from = next;
    } finally {
      endTurn();
    }
  }
}

async function searchPacked(
  { blobs, searches }: SearchParts,
  digest: string,
  { expression, limit, account, milliseconds }: SearchWanted & { milliseconds: number },
): Promise<Pick<SearchResult, 'matches' | 'next'>> {
  const task = { expression, packed: await readPacked(blobs, digest), limit, milliseconds };
  const { matches, searched } = await searches.ask(account, task, [task.packed.buffer]);
  return {
    matches: matches.map(({ line, start, text, ranges }) => ({ number: line + 1, offset: start, text, ranges })),
    next: searched === undefined ? null : searched + 1,
  };
}

/** The content of an old log is replaced by a notice (retention.ts). */
function isGone(log: Readonly<LogRow> | undefined): boolean {
  return !log || (log.complete === 1 && log.completed_at === null);
}
