import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';

/** A position from which the lines of a log can be read. */
export interface Mark {
  start: number;
  /** How many line breaks come before it. */
  breaks: number;
  /** Milliseconds since the log began; the same everywhere where times are unknown. */
  at: number;
  /** The state of the line scan there; see streams/line-scan.ts. */
  state: string;
}

export const origin: Mark = { start: 0, breaks: 0, at: 0, state: '' };

/** Times are rounded to this fraction of the whole time, so that a log that came byte by byte has few marks too. */
const mostTimes = 20_000;

/** Leaves out marks of little use: there is one for every chunk, and chunks may be tiny. */
export function thinned(marks: readonly Mark[], every: number): Mark[] {
  const resolution = Math.max(1, Math.ceil((marks.at(-1)?.at ?? 0) / mostTimes));
  const kept: Mark[] = [];
  let last = origin;
  for (const [index, mark] of marks.entries()) {
    const next = marks[index + 1];
    const isFar = next === undefined ? mark.start - last.start >= every : next.start - last.start > every;
    if (!isFar && mark.at - last.at < resolution) continue;
    kept.push(mark);
    last = mark;
  }
  return kept;
}

/** Each mark is stored as the difference to the one before. */
export async function packMarks(marks: readonly Mark[]): Promise<Buffer> {
  const bytes: number[] = [];
  const states: Buffer[] = [];
  const put = (value: number): void => {
    let left = value;
    for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
    bytes.push(left);
  };
  let last = origin;
  for (const mark of marks) {
    const state = Buffer.from(mark.state);
    put(mark.start - last.start);
    put(mark.breaks - last.breaks);
    put(mark.at - last.at);
    put(state.length);
    states.push(state);
    last = mark;
  }
  const head = Buffer.alloc(4);
  head.writeUInt32LE(bytes.length);
  return promisify(zstdCompress)(Buffer.concat([head, Buffer.from(bytes), ...states]));
}

/** More than the longest log can need. */
const largestIndex = 64 * 1024 * 1024;

export async function unpackMarks(packed: Uint8Array): Promise<Mark[]> {
  const bytes = await promisify(zstdDecompress)(packed, { maxOutputLength: largestIndex });
  const end = 4 + bytes.readUInt32LE();
  const numbers = numbersIn(bytes.subarray(4, end));
  const marks: Mark[] = [];
  let last = origin;
  let states = end;
  for (let at = 0; at + 3 < numbers.length; at += 4) {
    const [start = 0, breaks = 0, time = 0, length = 0] = numbers.slice(at, at + 4);
    const state = bytes.toString('utf8', states, states + length);
    last = { start: last.start + start, breaks: last.breaks + breaks, at: last.at + time, state };
    states += length;
    marks.push(last);
  }
  return marks;
}

function numbersIn(bytes: Uint8Array): number[] {
  const numbers: number[] = [];
  let [value, scale] = [0, 1];
  for (const byte of bytes) {
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte >= 128) continue;
    numbers.push(value);
    [value, scale] = [0, 1];
  }
  return numbers;
}
