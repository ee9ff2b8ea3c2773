import type { LogMarkRow, LogRow } from '../db/schema.ts';
import { packScan, scan, unpackScan } from './line-scan.ts';

/** There is a mark at least every so many bytes: a search for a line reads no more than that before it. */
export const markEvery = 128 * 1024;

export type Grown = Pick<LogRow, 'size' | 'line_breaks' | 'line_state' | 'began_at' | 'said_at'>;

/**
 * The new values of a log's row after the next bytes, and the marks in them: one where they begin, because time has
 * passed since the bytes before, and then every so many bytes.
 */
export function grow(log: Readonly<LogRow>, bytes: Buffer, now: bigint): { grown: Grown; marks: LogMarkRow[] } {
  const size = log.size + BigInt(bytes.length);
  const began = log.began_at ?? now;
  const said = log.said_at !== null && log.said_at > now ? log.said_at : now; // the clock may be set back, not a log
  const marks: LogMarkRow[] = [];
  let lines = unpackScan(Number(log.line_breaks), log.line_state ?? '');
  for (let from = 0; from < bytes.length; from += markEvery) {
    const start = log.size + BigInt(from);
    const state = packScan(lines);
    const place = { log_id: log.id, line_breaks: BigInt(lines.breaks), start, at: said - began };
    if (start > 0n) marks.push({ ...place, line_state: state });
    lines = scan(lines, bytes.subarray(from, from + markEvery));
  }
  const counted = { line_breaks: BigInt(lines.breaks), line_state: packScan(lines) };
  return { grown: { size, ...counted, began_at: began, said_at: said }, marks };
}
