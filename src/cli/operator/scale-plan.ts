import type { Demand } from '../../shared/protocol/index.ts';
import { backOff } from '../../shared/lib/back-off.ts';

/** The jobs of a scaler, as the engine's own queue shows them. */
export interface EngineJobs {
  /** Jobs that wait in the engine's queue, the oldest first: they can be cancelled. */
  pending: readonly string[];
  /** Jobs that the engine runs: their runner starts, waits for work, works, or is about to end. */
  active: number;
  /** Jobs that are over but not yet gone: they take no more work. */
  leaving: number;
}

export interface Plan {
  submit: number;
  cancel: readonly string[];
}

/**
 * How many jobs to start and which to cancel. This depends only on the present state and not on earlier calls, so a
 * scaler that was killed and restarted does the same as one that was not.
 *
 * A job that runs but has no work counts for waiting work: its runner is about to take it. If that is wrong, because
 * the runner has just done its one job and is ending, another job is started as soon as it is gone. So in doubt there
 * is one job too few for a moment, and not one too many.
 */
export function plan({ waiting, running }: Demand, { pending, active, leaving }: EngineJobs, max: number): Plan {
  const coming = pending.length + Math.max(0, active - running);
  const room = max - pending.length - active - leaving;
  const surplus = Math.min(pending.length, Math.max(coming - waiting, -room, 0));
  return {
    submit: Math.max(0, Math.min(waiting - coming, room)),
    cancel: pending.slice(pending.length - surplus),
  };
}

/**
 * Jobs that fail at once would be started again at once, for ever. So after failures the next start waits, longer each
 * time, until a job has ended well.
 */
export class Pace {
  #known: ReadonlySet<string> | undefined;
  #failures = 0;
  #notBefore = -Infinity;

  /** Records the jobs that are over. Those that were over before the first call do not count. */
  note({ well, badly }: { well: readonly string[]; badly: readonly string[] }, now: number): void {
    const known = this.#known;
    this.#known = new Set([...well, ...badly]);
    if (!known) return;
    if (well.some((id) => !known.has(id))) this.#failures = 0;
    else if (badly.some((id) => !known.has(id))) {
      this.#failures += 1;
      this.hold(now, backOff(this.#failures, 2000, longestWaitMs));
    }
  }

  /** Starts nothing for this long. */
  hold(now: number, ms: number): void {
    this.#notBefore = Math.max(this.#notBefore, now + ms);
  }

  mayStart(now: number): boolean {
    return now >= this.#notBefore;
  }
}

const longestWaitMs = 60_000;
