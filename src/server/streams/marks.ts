import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';

export interface Mark {
  start: number;
  breaks: number;
  /** Milliseconds since the log began. Constant if times are unknown. */
  at: number;
  state: string;
}

export const origin: Mark = { start: 0, breaks: 0, at: 0, state: '' };

/** Times are rounded to this fraction of the whole, so that a log that came byte by byte has few marks. */
const mostTimes = 20_000;

/** Drops marks of little use: every chunk has one, and chunks may be tiny. */
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

type Packed = [start: number, breaks: number, at: number, state: string];

export async function packMarks(marks: readonly Mark[]): Promise<Buffer> {
  const list = marks.map(({ start, breaks, at, state }): Packed => [start, breaks, at, state]);
  return promisify(zstdCompress)(JSON.stringify(list));
}

/** More than the longest log can need. */
const largestIndex = 64 * 1024 * 1024;

export async function unpackMarks(packed: Uint8Array): Promise<Mark[]> {
  const bytes = await promisify(zstdDecompress)(packed, { maxOutputLength: largestIndex });
  return (JSON.parse(bytes.toString()) as Packed[]).map(([start, breaks, at, state]) => ({ start, breaks, at, state }));
}
