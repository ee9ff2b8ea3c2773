import { createHash, randomBytes } from 'node:crypto';

/** A place in a trace, as the W3C's Trace Context has it. */
export interface TraceContext {
  /** 32 hexadecimal digits, not all of them zero. */
  traceId: string;
  /** 16 of them. */
  spanId: string;
  isSampled: boolean;
}

const shape = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Reads a `traceparent` header. Anything but the one form that version 00 has is undefined, as if nothing had been sent:
 * a version that does not exist yet may mean something else by it.
 */
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

/**
 * The identifier of a span below another one. It follows from what the span is about: so whoever starts something can
 * name its span, whoever sees it end can send that span, and neither has to tell the other.
 */
export function spanIdBelow({ traceId, spanId }: Pick<TraceContext, 'traceId' | 'spanId'>, about: string): string {
  return withoutZeros(createHash('sha256').update(`${traceId} ${spanId} ${about}`).digest('hex').slice(0, 16));
}

/** All zeros would mean that there is none. */
function withoutZeros(id: string): string {
  return /^0+$/.test(id) ? id.replace(/.$/, '1') : id;
}
