import { createHash, randomBytes } from 'node:crypto';

/** As in the W3C's Trace Context. */
export interface TraceContext {
  /** 32 hexadecimal digits, not all of them zero. */
  traceId: string;
  /** 16 hexadecimal digits. */
  spanId: string;
  isSampled: boolean;
}

const shape = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Undefined for anything but the exact form of version 00: a later version may mean something else by it. */
export function parseTraceparent(header: unknown): TraceContext | undefined {
  const [, traceId, spanId, flags = ''] = (typeof header === 'string' && shape.exec(header)) || [];
  if (traceId === undefined || spanId === undefined) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

export function newTraceId(): string {
  return withoutZeros(randomBytes(16).toString('hex'));
}

export function newSpanId(): string {
  return withoutZeros(randomBytes(8).toString('hex'));
}

/** Derived from the span's subject. So the process that starts it and the one that sees it end need not exchange it. */
export function spanIdBelow({ traceId, spanId }: Pick<TraceContext, 'traceId' | 'spanId'>, about: string): string {
  return withoutZeros(createHash('sha256').update(`${traceId} ${spanId} ${about}`).digest('hex').slice(0, 16));
}

function withoutZeros(id: string): string {
  return /^0+$/.test(id) ? id.replace(/.$/, '1') : id;
}
