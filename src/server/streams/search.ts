import { countBreaks } from '../../shared/lib/count-breaks.ts';
import type { Blobs } from '../db/blobs.ts';
import type { LogRow } from '../db/schema.ts';
import { findBreak } from './line-scan.ts';
import type { LineIndex, LineStorage } from './line-index.ts';
import type { Filter } from './log-filter.ts';
import { readLog } from './logs.ts';
import { origin } from './marks.ts';
import { createTurns, type Turns } from '../../shared/lib/turns.ts';
import { createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';

export interface Match {
  number: number;
  offset: number;
  text: string;
  ranges: number[];
}

export interface SearchResult {
  matches: Match[];
  complete: boolean;
  next: number | null;
}

export interface SearchWanted {
  expression: string;
  from: number;
  limit: number;
  /** The last line to search. The default is the last line of the log. */
  to?: number;
  /** The account for which the search takes its turn. */
  account: bigint;
  /** After this time the matches so far are returned. */
  milliseconds?: number;
}

export interface SearchParts extends LineStorage {
  searches: SearchThread;
}

/** A piece of whole lines. */
export interface SearchTask {
  expression: string;
  bytes: Uint8Array<ArrayBuffer>;
  limit: number;
  /** The search stops after the line in which this time ends. */
  milliseconds: number;
}

export interface SearchAnswer {
  matches: { line: number; start: number; text: string; ranges: number[] }[];
  /** The number of searched lines. Undefined for all. */
  searched: number | undefined;
}

/** A whole packed log. */
export interface PackedSearchTask extends Omit<SearchTask, 'bytes'> {
  packed: Uint8Array<ArrayBuffer>;
}

/** Adds a piece, or a whole packed log, to a log's filter. */
export type FilterTask =
  | ({ filter: Filter } & Pick<SearchTask, 'bytes'>)
  | ({ filter: Filter } & Pick<PackedSearchTask, 'packed'>);

export interface FilterAnswer {
  filter: Filter;
}

/** Accounts take turns. A piece takes a fraction of a second. */
export interface SearchThread {
  ask: WorkerThread<SearchTask | PackedSearchTask, SearchAnswer>['ask'] & WorkerThread<FilterTask, FilterAnswer>['ask'];
  /** The turns of searches of many logs to read one of them. */
  reads: Turns;
  /** The searches of many logs by account. */
  running: Map<bigint, number>;
  close(): Promise<void>;
}

/** Fewer than an account may have waiting, so that its searches of single logs have room. */
const logsAtOnce = 6;

export function createSearchThread(): SearchThread {
  const limits = { threads: 2, mostOfOne: 8, mostOfAll: 64, timeoutMs: 10_000 };
  const program = 'server/streams/search-worker.ts';
  const threads = createWorkerThread<SearchTask | PackedSearchTask | FilterTask, SearchAnswer | FilterAnswer>(
    program,
    limits,
  );
  return { ...(threads as Pick<SearchThread, 'ask' | 'close'>), reads: createTurns(logsAtOnce), running: new Map() };
}

/** The client may request more after this time. */
const timeMs = 1500;
const pieceMs = 250;
const pieceSize = 1024 * 1024;
const longestAnswer = 4 * 1024 * 1024;

export async function searchLog(parts: SearchParts, index: LineIndex, wanted: SearchWanted): Promise<SearchResult> {
  const until = performance.now() + Math.min(timeMs, wanted.milliseconds ?? timeMs);
  const result: SearchResult = { matches: [], complete: false, next: null };
  let sent = 0;
  const to = Math.min(wanted.to ?? index.total, index.total);
  const pieces = piecesOf(parts, index, wanted.from, to)[Symbol.asyncIterator]();
  try {
    let coming = pieces.next();
    for (;;) {
      const { value: piece, done } = await coming;
      if (done === true) return { ...result, complete: true };
      coming = pieces.next(); // read while this piece is searched
      coming.catch(() => {}); // the next await gets the error
      const { expression, account } = wanted;
      const task = {
        expression,
        bytes: piece.bytes,
        limit: wanted.limit - result.matches.length,
        milliseconds: pieceMs,
      };
      const { matches, searched } = await parts.searches.ask(account, task, [task.bytes.buffer]);
      for (const { line, start, text, ranges } of matches) {
        if (piece.first + line > to) return { ...result, complete: true };
        result.matches.push({ number: piece.first + line, offset: piece.offset + start, text, ranges });
        sent += text.length;
      }
      const next = piece.first + (searched ?? piece.lines);
      const isEnough = result.matches.length >= wanted.limit || sent >= longestAnswer;
      if (!isEnough && searched === undefined && performance.now() < until) continue;
      return next > to ? { ...result, complete: true } : { ...result, next };
    }
  } finally {
    await pieces.return?.(undefined);
  }
}

interface Piece {
  first: number;
  lines: number;
  offset: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** A line longer than a piece appears only with its beginning. */
export async function* piecesOf(parts: LineStorage, index: LineIndex, from: number, to: number): AsyncGenerator<Piece> {
  let first = from;
  while (first <= to) {
    const long = yield* shortLines(parts, index, first, to);
    if (long === undefined) return;
    first = long + 1; // the index finds the beginning of that line
  }
}

/** Returns the number of a line that is too long. The caller continues after that line. */
async function* shortLines(
  { db, blobs }: LineStorage,
  index: LineIndex,
  from: number,
  to: number,
): AsyncGenerator<Piece, number | undefined> {
  const mark = from === 1 ? origin : await index.before(from - 1);
  let skipped = from - 1 - mark.breaks;
  let first = from;
  let offset = mark.start;
  let gathered: Buffer[] = [];
  let length = 0;
  for await (const read of readLog(db, blobs, index.log.id, BigInt(mark.start), index.log.size)) {
    let piece = read;
    if (skipped > 0) {
      const found = findBreak(piece, skipped);
      const passed = found < 0 ? piece.length : found + 1;
      skipped = found < 0 ? skipped - countBreaks(piece) : 0;
      offset += passed;
      piece = piece.subarray(passed);
    }
    gathered.push(piece);
    length += piece.length;
    if (length < pieceSize) continue;
    const bytes = detachedCopy(gathered, length);
    const last = bytes.lastIndexOf(10);
    if (last < 0) {
      yield { first, lines: 1, offset, bytes };
      return first;
    }
    const whole = detachedCopy([bytes.subarray(0, last + 1)], last + 1);
    const rest = bytes.subarray(last + 1);
    const lines = countBreaks(whole);
    yield { first, lines, offset, bytes: whole };
    first += lines;
    if (first > to) return undefined;
    offset += last + 1;
    gathered = [rest];
    length = rest.length;
  }
  if (length > 0) {
    const bytes = detachedCopy(gathered, length);
    yield { first, lines: countBreaks(bytes) + 1, offset, bytes };
  }
  return undefined;
}

/** Up to this size, a thread unpacks and searches a log as a whole, which takes half the time. */
const mostAtOnce = 16 * 1024 * 1024;

export function isSearchedWhole(log: Readonly<LogRow>): log is LogRow & { blob: string } {
  return log.blob !== null && log.size <= BigInt(mostAtOnce);
}

export async function readPacked(blobs: Blobs, digest: string): Promise<Uint8Array<ArrayBuffer>> {
  await using blob = await blobs.open(digest);
  const read = await blob.read(0, blob.size);
  // A small buffer may share its memory with others.
  const isAlone = read.length === read.buffer.byteLength;
  return isAlone ? (read as Uint8Array<ArrayBuffer>) : detachedCopy([read], read.length);
}

/** A copy in separate memory, which is handed to another thread. */
function detachedCopy(parts: readonly Buffer[], length: number): Buffer<ArrayBuffer> {
  const bytes = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const part of parts) at += part.copy(bytes, at);
  return bytes;
}
