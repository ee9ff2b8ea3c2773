import type { Reason } from './types.ts';

/**
 * Ends a run early: SIGTERM to all its processes first, SIGKILL three seconds later. The first reason stays: a run that
 * is cancelled after its timeout counts as timed out.
 */
export const graceMs = 3000;

export interface Ending {
  reason(): Reason | null;
  end(reason: Reason): void;
  /** The run is over: no signals are sent from now on. */
  over(): void;
}

export function watchForEnd(options: {
  signal: AbortSignal;
  timeoutMs: number;
  ask: () => Promise<void>;
  force: () => void;
}): Ending {
  const { signal, timeoutMs, ask, force } = options;
  let reason: Reason | null = null;
  let forced: NodeJS.Timeout | undefined;
  const end = (why: Reason): void => {
    if (reason !== null) return;
    reason = why;
    forced = setTimeout(force, graceMs);
    ask().catch(force);
  };
  const cancel = (): void => end('cancelled');
  // Node fires timers beyond 2^31 ms at once.
  const slow = setTimeout(() => end('timed_out'), Math.min(timeoutMs, 2 ** 31 - 1));
  signal.addEventListener('abort', cancel, { once: true });
  if (signal.aborted) cancel();
  return {
    reason: () => reason,
    end,
    over: () => {
      clearTimeout(slow);
      clearTimeout(forced);
      signal.removeEventListener('abort', cancel);
      reason ??= null;
    },
  };
}
