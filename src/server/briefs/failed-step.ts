import type { BuildRow } from '../db/schema.ts';
import { stepsOf } from '../views/build-steps.ts';

type Row = Parameters<typeof stepsOf>[0];

export function isRed({ build_state: state }: Pick<BuildRow, 'build_state'>): boolean {
  return state === 'failed' || state === 'errored' || state === 'timed_out';
}

export interface FailedStep {
  name: string;
  exitStatus: number | null;
  /** Its lines of the log. */
  from: number;
  to: number;
}

/** Undefined if no step of the build failed, for example because none began. */
export function failedStep(build: Row): FailedStep | undefined {
  if (!isRed(build)) return undefined;
  const steps = stepsOf(build);
  const at = steps.findIndex(({ state }) => state === 'failed');
  const step = steps[at];
  if (!step) return undefined;
  const next = steps.slice(at + 1).find(({ line }) => line !== null)?.line ?? null;
  return {
    name: step.name,
    exitStatus: step.exit_status,
    from: step.line ?? 1,
    to: next === null ? Infinity : next - 1,
  };
}
