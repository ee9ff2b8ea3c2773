import type { Demand } from '../../shared/protocol/index.ts';
import { backOff } from '../../shared/lib/back-off.ts';

export interface EngineJobs {
  /** Queued jobs, oldest first. They can be cancelled. */
  pending: readonly string[];
  /** Their runner starts, waits for work, works, or is about to end. */
  active: number;
  /** Jobs that are over but still listed. They take no more work. */
  leaving: number;
}

export interface Plan {
  submit: number;
  cancel: readonly string[];
}

/**
 * Depends only on the present state, so a restarted scaler decides the same.
 *
 * A running job without work counts for waiting work, because its runner is about to take it. If that runner is ending
 * instead, another job starts once it is gone. So in doubt there is one job too few for a moment.
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

/** Jobs that fail at once must not be restarted endlessly. Each failure makes the next start wait longer. */
export class Pace {
  #known: ReadonlySet<string> | undefined;
  #failures = 0;
  #notBefore = -Infinity;

  /** Jobs that were over before the first call do not count. */
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

  hold(now: number, ms: number): void {
    this.#notBefore = Math.max(this.#notBefore, now + ms);
  }

  mayStart(now: number): boolean {
    return now >= this.#notBefore;
  }
}

const longestWaitMs = 60_000;
