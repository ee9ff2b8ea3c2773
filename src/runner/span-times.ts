import { most } from '../shared/domain/bounds.ts';
import type { SpanReport } from '../shared/protocol/index.ts';

/** The times of a job's parts, relative to when the runner got its order. */
export interface SpanTimes {
  begin(name: string): void;
  /** Ends the current part. */
  end(): void;
  /** All parts in order, up to a limit. Ends the current part. */
  report(): SpanReport[];
}

export function spanTimes(now: () => number = () => performance.now()): SpanTimes {
  const orderedAt = now();
  const spans: SpanReport[] = [];
  let current: { name: string; from: number } | undefined;
  const elapsed = (): number => Math.round(now() - orderedAt);
  const end = (): void => {
    if (current && spans.length < most.spans) spans.push({ ...current, to: elapsed() });
    current = undefined;
  };
  return {
    begin(name) {
      end();
      current = { name, from: elapsed() };
    },
    end,
    report() {
      end();
      return spans;
    },
  };
}
