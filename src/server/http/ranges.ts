import type { Incoming } from './route.ts';

/** `to` is exclusive. */
export interface ByteRange {
  from: bigint;
  to: bigint;
}

/** RFC 9110, 14.2. Undefined means everything: if the header is not a single range of bytes, or with `if-range`. */
export function readRange(headers: Incoming['headers'], size: bigint): ByteRange | 'unsatisfiable' | undefined {
  const { range } = headers;
  if (range === undefined || headers['if-range'] !== undefined) return undefined;
  const [, first = '', last = ''] = /^bytes=\s*(\d{0,18})-(\d{0,18})\s*$/i.exec(String(range)) ?? [];
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = BigInt(last);
    if (length === 0n || size === 0n) return 'unsatisfiable';
    return { from: length < size ? size - length : 0n, to: size };
  }
  const from = BigInt(first);
  const to = last === '' ? size : BigInt(last) + 1n;
  if (to <= from && last !== '') return undefined;
  if (from >= size) return 'unsatisfiable';
  return { from, to: to < size ? to : size };
}
