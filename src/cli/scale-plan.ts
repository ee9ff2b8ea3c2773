import type { Demand } from '../protocol/index.ts';

/** The jobs of a scaler, as the engine's own queue shows them. */
export interface EngineJobs {
  /** Those that wait for a place, the oldest first: they can be called off. */
  pending: readonly string[];
  /** Those that have a place: their runner starts, waits for work, works, or is about to end. */
  active: number;
  /** Those that are over and still have their place: they take no more work. */
  leaving: number;
}

export interface Plan {
  submit: number;
  cancel: readonly string[];
}

/**
 * How many jobs to start and which to call off. It follows from what is there now and from nothing that was done before,
 * so a scaler that was killed and started again does the same as one that was not.
 *
 * A job that has a place but no work counts for work that waits: its runner is on its way to it. Where that is not so,
 * because the runner has just done its one job and is ending, a job is started as soon as it is gone. So in doubt there
 * is one too few for a moment, and not one too many.
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
 * Jobs that end badly at once would be started again at once, for ever. So after bad ends the next start waits, longer
 * each time, until a job has ended well.
 */
export class Pace {
  #known: ReadonlySet<string> | undefined;
  #failures = 0;
  #notBefore = -Infinity;

  /** Takes note of the jobs that are over; of those that were over before the first call nothing follows. */
  note({ well, badly }: { well: readonly string[]; badly: readonly string[] }, now: number): void {
    const known = this.#known;
    this.#known = new Set([...well, ...badly]);
    if (!known) return;
    if (well.some((id) => !known.has(id))) this.#failures = 0;
    else if (badly.some((id) => !known.has(id))) {
      this.#failures += 1;
      this.hold(now, Math.min(longestWaitMs, 1000 * 2 ** this.#failures));
    }
  }

  /** Nothing is started for so long. */
  hold(now: number, ms: number): void {
    this.#notBefore = Math.max(this.#notBefore, now + ms);
  }

  mayStart(now: number): boolean {
    return now >= this.#notBefore;
  }
}

const longestWaitMs = 60_000;
