import type { LogMarkRow, LogRow } from '../db/schema.ts';
import { packScan, scan, unpackScan } from './line-scan.ts';

/** Maximum distance between marks: a search for a line reads at most this much before it. */
export const markEvery = 128 * 1024;

export type Grown = Pick<LogRow, 'size' | 'line_breaks' | 'line_state' | 'began_at' | 'said_at'>;

/** Adds a mark at the start of the bytes, because time has passed, and then at regular distances. */
export function grow(log: Readonly<LogRow>, bytes: Buffer, now: bigint): { grown: Grown; marks: LogMarkRow[] } {
  const size = log.size + BigInt(bytes.length);
  const began = log.began_at ?? now;
  const writtenAt = log.said_at !== null && log.said_at > now ? log.said_at : now; // log times never go back, the clock may
  const marks: LogMarkRow[] = [];
  let lines = unpackScan(Number(log.line_breaks), log.line_state ?? '');
  for (let from = 0; from < bytes.length; from += markEvery) {
    const start = log.size + BigInt(from);
    const state = packScan(lines);
    const place = { log_id: log.id, line_breaks: BigInt(lines.breaks), start, at: writtenAt - began };
    if (start > 0n) marks.push({ ...place, line_state: state });
    lines = scan(lines, bytes.subarray(from, from + markEvery));
  }
  const counted = { line_breaks: BigInt(lines.breaks), line_state: packScan(lines) };
  return { grown: { size, ...counted, began_at: began, said_at: writtenAt }, marks };
}
