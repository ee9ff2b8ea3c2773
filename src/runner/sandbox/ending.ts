import { setTimeout as delay } from 'node:timers/promises';
import { signalAll } from './descendants.ts';
import type { Reason } from './types.ts';

/** The time from SIGTERM to SIGKILL. The first reason stays: a run cancelled after its timeout counts as timed out. */
export const graceMs = 3000;

/**
 * Signals the step's processes repeatedly until `isOver`, because a step that was already chosen may be about to begin.
 */
export async function interruptSteps(options: {
  processes: () => Promise<number[]>;
  isOver: () => boolean;
}): Promise<void> {
  const { processes, isOver } = options;
  const asked = new Set<number>();
  for (const began = performance.now(); !isOver(); await delay(betweenSignalsMs)) {
    const found = await processes();
    if (isOver()) return;
    const isLate = performance.now() - began > graceMs;
    signalAll(
      found.filter((pid) => isLate || !asked.has(pid)),
      isLate ? 'SIGKILL' : 'SIGTERM',
    );
    for (const pid of found) asked.add(pid);
  }
}

const betweenSignalsMs = 50;

export interface Ending {
  reason(): Reason | null;
  wasForced(): boolean;
  end(reason: Reason): void;
  over(): void;
}

export function watchForEnd(options: {
  signal: AbortSignal;
  timeoutMs: number;
  graceMs?: number | undefined;
  ask: () => Promise<void>;
  force: () => void;
}): Ending {
  const { signal, timeoutMs, ask, force, graceMs: grace = graceMs } = options;
  let reason: Reason | null = null;
  let forced: NodeJS.Timeout | undefined;
  let isForced = false;
  const end = (why: Reason): void => {
    if (reason !== null) return;
    reason = why;
    forced = setTimeout(() => {
      isForced = true;
      force();
    }, grace);
    ask().catch(force);
  };
  const cancel = (): void => end('cancelled');
  // Node fires timers beyond 2^31 ms at once.
  const slow = setTimeout(() => end('timed_out'), Math.min(timeoutMs, 2 ** 31 - 1));
  signal.addEventListener('abort', cancel, { once: true });
  if (signal.aborted) cancel();
  return {
    reason: () => reason,
    wasForced: () => isForced,
    end,
    over: () => {
      clearTimeout(slow);
      clearTimeout(forced);
      signal.removeEventListener('abort', cancel);
    },
  };
}
