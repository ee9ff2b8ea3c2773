import { setTimeout as pause } from 'node:timers/promises';
import { mostProjects, type Link } from '../protocol.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

export interface UpkeepOptions {
  mirrors: Pick<Mirrors, 'collect'>;
  isBusy: () => boolean;
  signal: AbortSignal;
  log: (message: string) => void;
  /** The pause between two checks whether it is time. */
  lookEveryMs?: number | undefined;
}

/**
 * Cleans up the mirrors once a day, while there is no job: unused mirrors are removed, because otherwise the disk would
 * fill with every repository that was ever built. A runner that is busy for a whole day does it beside its jobs.
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
      if (!signal.aborted) log(`cleanup of mirrors failed: ${error instanceof Error ? error.message : String(error)}`);
    }
    due = now + day;
  }
}

export interface ForgettingOptions {
  link: Pick<Link, 'gone'>;
  mirrors: Pick<Mirrors, 'projects' | 'forget'>;
  checkouts: Pick<Checkouts, 'forget'>;
  signal: AbortSignal;
  log: (message: string) => void;
  everyMs?: number | undefined;
}

const askEveryMs = 5000;

/**
 * Removes the data of deleted projects. If the server does not answer, or the data is in use, the next run tries again.
 */
export async function forgetProjects(options: ForgettingOptions): Promise<void> {
  const { link, mirrors, checkouts, signal, log } = options;
  for (let from = 0; ;) {
    await pause(options.everyMs ?? askEveryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const kept = (await mirrors.projects()).filter((name) => /^[0-9]{1,18}$/.test(name));
    if (from >= kept.length) from = 0;
    const some = kept.slice(from, from + mostProjects);
    from += some.length;
    if (some.length === 0) continue;
    const gone = await link.gone(some, signal).catch(() => []);
    for (const project of gone.filter((name) => some.includes(name))) {
      await Promise.all([mirrors.forget(project), checkouts.forget(project)]).catch((error: unknown) =>
        log(`cleanup failed, data of the deleted project ${project} stays: ${String(error)}`),
      );
    }
  }
}
