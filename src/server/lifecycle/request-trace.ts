import type { BuildRequestRow } from '../db/schema.ts';
import { newSpanId, newTraceId, parseTraceparent, type TraceContext } from '../../shared/lib/trace-context.ts';
import type { WriteContext } from './write-context.ts';

/** The trace in the row of a request. */
export interface Trace extends TraceContext {
  parentId?: string;
  /** When the trace began. A rerun of the request begins another trace. */
  at: number;
  /** When its last fetch began. */
  fetchAt?: number;
}

/** The trace of a new request, for its row. Blank without tracing. */
export function beginTrace({ observers: { tracer } }: WriteContext, traceparent?: unknown): string {
  if (!tracer) return '';
  const parent = parseTraceparent(traceparent);
  const traceId = parent?.traceId ?? newTraceId();
  const isSampled = tracer.isSampled(traceId, parent);
  const trace: Trace = { traceId, spanId: newSpanId(), isSampled, at: Date.now() };
  return JSON.stringify(parent ? { ...trace, parentId: parent.spanId } : trace);
}

/** A rerun of a request begins another trace. */
export async function beginTraceAgain(
  context: WriteContext,
  request: Pick<BuildRequestRow, 'id' | 'trace'>,
  traceparent?: unknown,
): Promise<void> {
  const trace = beginTrace(context, traceparent);
  if (trace === request.trace) return; // both are blank
  await context.trx.updateTable('build_requests').set({ trace }).where('id', '=', request.id).execute();
}

/** The trace of a request, if this server traces. */
export function traceOf({ observers }: WriteContext, trace: string): Trace | undefined {
  return trace === '' || !observers.tracer ? undefined : (JSON.parse(trace) as Trace);
}

export async function noteFetchBegins(context: WriteContext, request: BuildRequestRow): Promise<void> {
  const trace = traceOf(context, request.trace);
  if (!trace) return;
  const noted = JSON.stringify({ ...trace, fetchAt: Date.now() } satisfies Trace);
  await context.trx.updateTable('build_requests').set({ trace: noted }).where('id', '=', request.id).execute();
}
