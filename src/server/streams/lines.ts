import { beginning, findBreak, scan, unpackScan, type Scan } from './line-scan.ts';
import type { LineIndex, LineStorage } from './line-index.ts';
import { readLog } from './logs.ts';
import { origin, type Mark } from './marks.ts';
import { wholeCharacters } from './tail.ts';

export interface Line {
  number: number;
  offset: number;
  /** The time of its first byte, in milliseconds since the log began. null if unknown. */
  at: number | null;
  text: string;
  isCut: boolean;
}

export interface LinesWanted {
  from: number;
  limit: number;
  /** Limits in bytes: of one line, and of all lines together. */
  longestLine: number;
  longestAnswer: number;
}

export interface Lines {
  lines: Line[];
  /** The line scan before the first line. */
  before: Scan;
}

/** Read limit after the first line: a log may be one line of half a gigabyte. */
const mostRead = 16 * 1024 * 1024;

/** Negative numbers count from the end. */
export function lineNumber(from: number, total: number): number {
  return from > 0 ? from : Math.max(1, total + from + 1);
}

/** Very long lines may yield fewer than requested. The caller then requests the rest. */
export async function readLines(storage: LineStorage, index: LineIndex, wanted: LinesWanted): Promise<Lines> {
  if (wanted.from > index.total) return { lines: [], before: index.end };
  const mark = wanted.from === 1 ? origin : await index.before(wanted.from - 1);
  const reader = new LineReader(mark, wanted);
  const { id, size } = index.log;
  for await (const piece of readLog(storage.db, storage.blobs, id, BigInt(mark.start), size)) {
    if (reader.take(piece)) break;
  }
  const lines = reader.end(index.log.complete === 1);
  await addTimes(index, mark, lines);
  return { lines, before: reader.before };
}

async function addTimes(index: LineIndex, mark: Mark, lines: readonly Line[]): Promise<void> {
  const last = lines.at(-1);
  if (!last || !index.hasTimes) return;
  const marks = await index.between(mark, { breaks: last.number - 1, start: last.offset });
  let [at, next] = [mark.at, 0];
  for (const line of lines) {
    for (; (marks[next]?.start ?? Infinity) <= line.offset; next += 1) at = marks[next]?.at ?? at;
    line.at = at;
  }
}

class LineReader {
  readonly #wanted: LinesWanted;
  readonly #lines: Line[] = [];
  #offset: number;
  /** Line breaks to skip before the first line. */
  #skipped: number;
  #before: Scan;
  #parts: Buffer[] = [];
  #kept = 0;
  #length = 0;
  #told = 0;
  #read = 0;

  constructor(mark: Mark, wanted: LinesWanted) {
    this.#wanted = wanted;
    this.#offset = mark.start;
    this.#before = mark === origin ? beginning : unpackScan(mark.breaks, mark.state);
    this.#skipped = wanted.from - 1 - mark.breaks;
  }

  get before(): Scan {
    return this.#before;
  }

  take(piece: Buffer): boolean {
    let at = 0;
    if (this.#skipped > 0) {
      const found = findBreak(piece, this.#skipped);
      const passed = found < 0 ? piece : piece.subarray(0, found + 1);
      this.#before = scan(this.#before, passed);
      this.#skipped = this.#wanted.from - 1 - this.#before.breaks;
      this.#offset += passed.length;
      at = passed.length;
    }
    while (at < piece.length) {
      const end = piece.indexOf(10, at);
      this.#keep(piece.subarray(at, end < 0 ? piece.length : end));
      at = end < 0 ? piece.length : end + 1;
      if (end >= 0 && this.#finish(1)) return true;
      if (end < 0 && this.#read > mostRead) return this.#finish(0);
    }
    return false;
  }

  end(isComplete: boolean): Line[] {
    const isFull = this.#lines.length >= this.#wanted.limit;
    if (this.#length > 0 && !isFull) this.#finish(0, isComplete);
    return this.#lines;
  }

  #keep(part: Buffer): void {
    const room = this.#wanted.longestLine - this.#kept;
    if (room > 0 && part.length > 0) this.#parts.push(part.subarray(0, room));
    this.#kept += Math.min(part.length, Math.max(room, 0));
    this.#length += part.length;
    this.#read += part.length + 1;
  }

  #finish(lineBreak: 0 | 1, isWhole = lineBreak === 1): boolean {
    const isCut = this.#length > this.#kept;
    const bytes = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    const end = isCut || !isWhole ? wholeCharacters(bytes) : bytes.length;
    const number = this.#wanted.from + this.#lines.length;
    this.#lines.push({ number, offset: this.#offset, at: null, text: bytes.toString('utf8', 0, end), isCut });
    this.#offset += this.#length + lineBreak;
    this.#told += this.#kept;
    this.#parts = [];
    this.#kept = this.#length = 0;
    const isEnough = this.#lines.length >= this.#wanted.limit || this.#told >= this.#wanted.longestAnswer;
    return isEnough || this.#read > mostRead;
  }
}
