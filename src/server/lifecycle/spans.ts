import type { TraceContext } from '../../shared/lib/trace-context.ts';

/** A part of a trace: something that took a while and is over. */
export interface Span {
  name: string;
  context: TraceContext;
  /** The span above it; missing where the trace begins with this one. */
  parentId?: string | undefined;
  /** Milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  attributes: Record<string, string | number>;
  /** Whether it ended in an error. */
  isError?: boolean;
}

/** Where spans go. */
export interface Tracer {
  /** Whether the spans of a trace, new or from elsewhere, are recorded. */
  isSampled(traceId: string, parent: TraceContext | undefined): boolean;
  /** Never fails, and never waits. */
  end(span: Span): void;
}
