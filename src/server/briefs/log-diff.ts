import { memoized } from '../db/memo.ts';
import type { Database } from '../db/open.ts';
import { createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { lineIndex, type LineIndex, type LineStorage } from '../streams/line-index.ts';
import type { CompareTask, DiffAnswer, LinesTask } from './diff-worker.ts';
import { HashedLog } from './hashed-log.ts';
import { textsOf } from './line-texts.ts';

/** Lines that differ, counted from 0: `from` to `to` of one log instead of `withFrom` to `withTo` of the other. */
export interface Region {
  from: number;
  to: number;
  withFrom: number;
  withTo: number;
}

export interface LogDiff {
  regions: Region[];
  /** False if more may differ, or less. */
  isComplete: boolean;
}

type DiffThread = WorkerThread<LinesTask | CompareTask, DiffAnswer>;
const makeThread = (): DiffThread => {
  const limits = { mostOfOne: 8, mostOfAll: 64, timeoutMs: 10_000 };
  return createWorkerThread('server/briefs/diff-worker.ts', limits);
};
export const closeDiffThread = (database: Database): Promise<void> => memoized(database, makeThread).close();

export interface DiffParts extends LineStorage {
  database: Database;
}

interface Wanted {
  id: bigint;
  withId: bigint;
  account: bigint;
  signal: AbortSignal;
}

/** How many lines are compared at once. The next size is tried if no equal lines are found. */
const windows = [2000, 16_000, 128_000, 512_000];
/** Fewer equal lines in a row may be a coincidence. */
const leastRun = 3;
const mostRegions = 2000;
/** After this time, lines that differ are no longer levelled. */
const levellingMs = 1000;
const mostLevelled = 5000;

/** Compares lines as they are, and then levels those that differ. */
export async function diffLogs(parts: DiffParts, wanted: Wanted): Promise<LogDiff> {
  const thread = memoized(parts.database, makeThread);
  const ask: Ask = (task, moved) => {
    wanted.signal.throwIfAborted();
    return thread.ask(wanted.account, task, moved);
  };
  const [index, other] = [await lineIndex(parts, wanted.id), await lineIndex(parts, wanted.withId)];
  if (!index || !other) return { regions: [], isComplete: true };
  const [log, against] = [new HashedLog(parts, index, ask), new HashedLog(parts, other, ask)];
  try {
    const { regions, isComplete } = await compare(log, against, ask);
    const until = performance.now() + levellingMs;
    const levelled: Region[] = [];
    for (const region of regions)
      levelled.push(...(performance.now() > until ? [region] : await level(parts, { index, other, ask }, region)));
    return { regions: levelled, isComplete };
  } finally {
    await Promise.all([log.close(), against.close()]);
  }
}

type Ask = (task: LinesTask | CompareTask, moved: ArrayBuffer[]) => Promise<DiffAnswer>;

async function compare(log: HashedLog, against: HashedLog, ask: Ask): Promise<LogDiff> {
  const regions: Region[] = [];
  let isComplete = true;
  const differ = (count: number, others: number): void => {
    if (count > 0 || others > 0)
      regions.push({ from: log.at, to: log.at + count, withFrom: against.at, withTo: against.at + others });
    log.pass(count);
    against.pass(others);
  };
  for (;;) {
    await Promise.all([log.fill(1), against.fill(1)]);
    const equal = equalBeginning(log.first(), against.first());
    if (equal > 0) {
      log.pass(equal);
      against.pass(equal);
      continue;
    }
    if (log.length === 0 || against.length === 0) {
      // What is left of one of them need not be read.
      const [to, withTo] = [log.index.total, against.index.total];
      if (log.at < to || against.at < withTo) regions.push({ from: log.at, to, withFrom: against.at, withTo });
      return { regions, isComplete };
    }
    if (regions.length >= mostRegions) return { regions, isComplete: false };
    for (const size of windows) {
      await Promise.all([log.fill(size + 1), against.fill(size + 1)]);
      const [a, b] = [log.copy(size), against.copy(size)];
      const isAll = log.isRead && against.isRead && log.length <= size && against.length <= size;
      const [count, others] = [a.length, b.length];
      const runs = triples(await ask({ kind: 'compare', a, b }, [a.buffer, b.buffer]));
      // What follows the last equal lines may equal lines beyond the window.
      const sure = isAll ? runs.length : runs.findLastIndex(([, , length]) => length >= leastRun) + 1;
      const isLast = size === windows.at(-1);
      if (sure === 0 && !isAll && !isLast) continue;
      const [start, withStart] = [log.at, against.at];
      for (const [at, other, length] of runs.slice(0, sure)) {
        differ(at - (log.at - start), other - (against.at - withStart));
        log.pass(length);
        against.pass(length);
      }
      if (isAll || sure === 0) {
        differ(count - (log.at - start), others - (against.at - withStart));
        isComplete &&= isAll;
      }
      break;
    }
  }
}

function equalBeginning(a: DiffAnswer, b: DiffAnswer): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a[at] === b[at]) at += 1;
  return at;
}

type Run = readonly [at: number, other: number, length: number];

function triples(numbers: DiffAnswer): Run[] {
  return Array.from({ length: numbers.length / 3 }, (_, at) => {
    const [one, other, length] = numbers.subarray(3 * at, 3 * at + 3) as unknown as [number, number, number];
    return [one, other, length];
  });
}

interface Logs {
  index: LineIndex;
  other: LineIndex;
  ask: Ask;
}

/** The parts of a region that also differ when they are levelled. */
async function level(parts: LineStorage, { index, other, ask }: Logs, region: Region): Promise<Region[]> {
  const { from, to, withFrom, withTo } = region;
  if (from === to || withFrom === withTo || to - from > mostLevelled || withTo - withFrom > mostLevelled)
    return [region];
  const a = await levelledLines(parts, index, ask, [from, to]);
  const b = await levelledLines(parts, other, ask, [withFrom, withTo]);
  const runs = triples(await ask({ kind: 'compare', a, b }, [a.buffer, b.buffer]));
  const found: Region[] = [];
  let [at, withAt] = [from, withFrom];
  for (const [start, otherStart, length] of [...runs, [to - from, withTo - withFrom, 0] as const]) {
    if (from + start > at || withFrom + otherStart > withAt)
      found.push({ from: at, to: from + start, withFrom: withAt, withTo: withFrom + otherStart });
    [at, withAt] = [from + start + length, withFrom + otherStart + length];
  }
  return found;
}

async function levelledLines(
  parts: LineStorage,
  index: LineIndex,
  ask: Ask,
  [from, to]: [number, number],
): Promise<DiffAnswer> {
  const texts = await textsOf(parts, index, from, to);
  const bytes = Uint8Array.from(Buffer.from(texts.map((text) => `${text}\n`).join('')));
  return ask({ kind: 'levelled', bytes }, [bytes.buffer]);
}
