import type { TraceContext } from '../../shared/lib/trace-context.ts';

export interface Span {
  name: string;
  context: TraceContext;
  /** Missing for the first span of a trace. */
  parentId?: string | undefined;
  /** Milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  attributes: Record<string, string | number>;
  isError?: boolean;
}

export interface Tracer {
  isSampled(traceId: string, parent: TraceContext | undefined): boolean;
  /** Never fails, and never waits. */
  end(span: Span): void;
}
