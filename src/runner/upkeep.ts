import { setTimeout as pause } from 'node:timers/promises';
import type { Mirrors } from './git/mirrors.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

export interface UpkeepOptions {
  mirrors: Pick<Mirrors, 'collect'>;
  isBusy: () => boolean;
  signal: AbortSignal;
  log: (message: string) => void;
  /** How often to look whether it is time. */
  lookEveryMs?: number | undefined;
}

/**
 * Tidies the mirrors once a day, in a moment without work: those that nobody uses go, or the disk would fill with every
 * repository that was ever built. A runner that has no such moment for a whole day does it beside its work.
 */
export async function tidyMirrors({
  mirrors,
  isBusy,
  signal,
  log,
  lookEveryMs = minute,
}: UpkeepOptions): Promise<void> {
  let due = performance.now();
  for (;;) {
    await pause(lookEveryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const now = performance.now();
    if (now < due || (isBusy() && now < due + day)) continue;
    try {
      await mirrors.collect(undefined, signal);
    } catch (error) {
      if (!signal.aborted) log(`mirrors were not tidied: ${error instanceof Error ? error.message : String(error)}`);
    }
    due = now + day;
  }
}
