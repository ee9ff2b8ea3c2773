import { most } from '../domain/bounds.ts';
import type { StepReport } from '../protocol/index.ts';

/** When the parts of a job began and ended, since the runner got its order. */
export interface StepTimes {
  begin(name: string): void;
  /** The part that began last is over; without one, nothing is. */
  end(): void;
  /** The parts in their order, the first of very many; one that did not end ends now. */
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
