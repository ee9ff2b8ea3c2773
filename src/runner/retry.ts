import { setTimeout as pause } from 'node:timers/promises';
import { RefusedError, RejectedError } from './failures.ts';

const longestPause = 2000;

/** Makes a call until it succeeds: a server that is away comes back. Only the signal ends it, or to be refused for good. */
export async function untilAnswered<T>(
  signal: AbortSignal,
  call: () => Promise<T>,
  onAway?: (error: unknown) => void,
): Promise<T> {
  for (let wait = 50; ; wait = Math.min(wait * 2, longestPause)) {
    signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RefusedError || error instanceof RejectedError) throw error;
      onAway?.(error);
    }
    await pause(wait, undefined, { signal }).catch(() => {}); // who asks is told the signal's own reason
  }
}
