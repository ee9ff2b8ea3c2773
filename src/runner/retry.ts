import { setTimeout as pause } from 'node:timers/promises';
import { DiskFullError } from '../shared/lib/disk-reserve.ts';
import { DrainedError } from '../shared/protocol/index.ts';
import { BrokenServerError, RefusedError, RejectedError, StoreAwayError } from './failures.ts';

const longestPause = 2000;
const final = [RefusedError, RejectedError, DiskFullError, DrainedError];

export function isFinal(error: unknown): boolean {
  return final.some((kind) => error instanceof kind);
}

/** Repeats a call until it succeeds. Throws after a final error, an abort, or an error that `onAway` throws. */
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
      if (isFinal(error)) throw error;
      onAway?.(error);
    }
    await pause(wait, undefined, { signal }).catch(() => {}); // the caller gets the signal's own reason
  }
}

/** An `onAway` for calls that are not repeated while blob storage is unreachable. */
export function unlessStoreAway(error: unknown): void {
  if (error instanceof StoreAwayError) throw error;
}

/** An `onAway` for calls that end after the server has failed at them `times` times. */
export function unlessBroken(times: number): (error: unknown) => void {
  let left = times;
  return (error) => {
    if (!(error instanceof BrokenServerError)) return;
    left -= 1;
    if (left === 0) throw error;
  };
}

/** An `onAway` for calls that are repeated at most for `ms` while blob storage is unreachable. */
export function unlessStoreAwayFor(ms: number): (error: unknown) => void {
  const since = performance.now();
  return (error) => {
    if (performance.now() - since >= ms) unlessStoreAway(error);
  };
}
