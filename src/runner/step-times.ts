import { most } from '../shared/domain/bounds.ts';
import type { StepReport } from '../shared/protocol/index.ts';

/** The times of a job's parts, relative to when the runner got its order. */
export interface StepTimes {
  begin(name: string): void;
  /** Ends the current part. */
  end(): void;
  /** All parts in order, up to a limit. Ends the current part. */
  report(): StepReport[];
}

export function stepTimes(now: () => number = () => performance.now()): StepTimes {
  const orderedAt = now();
  const steps: StepReport[] = [];
  let current: { name: string; from: number } | undefined;
  const elapsed = (): number => Math.round(now() - orderedAt);
  const end = (): void => {
    if (current && steps.length < most.steps) steps.push({ ...current, to: elapsed() });
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
      return steps;
    },
  };
}
