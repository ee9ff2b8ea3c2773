import { setTimeout as pause } from 'node:timers/promises';
import { most } from '../domain/bounds.ts';
import { messageOf } from '../lib/error-code.ts';
import { isId } from '../lib/ids.ts';
import type { Link } from '../protocol/index.ts';
import type { CacheStore } from './cache-store.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { KeptBuilds } from './kept-builds.ts';
import type { Outbox } from './outbox.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

export interface UpkeepOptions {
  mirrors: Pick<Mirrors, 'collect'>;
  isBusy: () => boolean;
  signal: AbortSignal;
  log: (message: string) => void;
  /** The pause between two checks whether it is time. */
  checkEveryMs?: number | undefined;
}

/**
 * Cleans up the mirrors once a day, while there is no job: unused mirrors are removed, because otherwise the disk would
 * fill with every repository that was ever built. A runner that is busy for a whole day does it while it has jobs.
 */
export async function tidyMirrors({
  mirrors,
  isBusy,
  signal,
  log,
  checkEveryMs = minute,
}: UpkeepOptions): Promise<void> {
  let due = performance.now();
  for (;;) {
    await pause(checkEveryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const now = performance.now();
    if (now < due || (isBusy() && now < due + day)) continue;
    try {
      await mirrors.collect(undefined, signal);
    } catch (error) {
      if (!signal.aborted) log(`cleanup of mirrors failed: ${messageOf(error)}`);
    }
    due = now + day;
  }
}

export interface ForgettingOptions {
  link: Pick<Link, 'gone'>;
  mirrors: Pick<Mirrors, 'projects' | 'forget'>;
  checkouts: Pick<Checkouts, 'forget'>;
  caches: Pick<CacheStore, 'projects' | 'forget'>;
  trees: Pick<CacheStore, 'projects' | 'forget'>;
  serviceData?: Pick<CacheStore, 'projects' | 'forget'> | undefined;
  outbox: Pick<Outbox, 'projects' | 'forget'>;
  kept?: Pick<KeptBuilds, 'projects' | 'forget'> | undefined;
  signal: AbortSignal;
  log: (message: string) => void;
  everyMs?: number | undefined;
}

const askEveryMs = 5000;

/**
 * Removes the data of deleted projects. If the server does not answer, or the data is in use, the next run tries again.
 */
export async function forgetProjects(options: ForgettingOptions): Promise<void> {
  const { link, mirrors, checkouts, caches, trees, serviceData, outbox, kept: builds, signal, log } = options;
  const named = [caches, trees, outbox, ...(serviceData ? [serviceData] : []), ...(builds ? [builds] : [])];
  for (let from = 0; ;) {
    await pause(options.everyMs ?? askEveryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const all = new Set([...(await mirrors.projects()), ...named.flatMap((store) => store.projects())]);
    const known = [...all].filter(isId);
    if (from >= known.length) from = 0;
    const some = known.slice(from, from + most.askedAbout);
    from += some.length;
    if (some.length === 0) continue;
    const gone = await link.gone({ projects: some }, signal).catch(() => []);
    for (const project of gone.filter((name) => some.includes(name))) {
      await Promise.all([mirrors, checkouts, ...named].map((store) => store.forget(project))).catch((error: unknown) =>
        log(`cleanup failed, data of the deleted project ${project} stays: ${String(error)}`),
      );
    }
  }
}

export interface TidyingOptions {
  link: Pick<Link, 'stale'>;
  caches: Pick<CacheStore, 'idle' | 'drop' | 'tidy'>;
  isBusy: () => boolean;
  signal: AbortSignal;
  log: (message: string) => void;
  everyMs?: number | undefined;
}

/** The server is asked only every few minutes: an idle runner should cost it nothing. */
const askEvery = 10;

/**
 * Removes the trees that no cache uses any more, and makes room if the disk lacks it. Flushes the others to disk while
 * there is no job. If the server does not answer, the next run asks again.
 */
export async function tidyCaches({ link, caches, isBusy, signal, log, everyMs }: TidyingOptions): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await pause(everyMs ?? minute, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      const idle = turn % askEvery === 0 ? caches.idle() : [];
      const stale = idle.length > 0 ? await link.stale({ trees: idle }, signal).catch(() => []) : [];
      await caches.drop(
        stale.filter((one) => idle.some(({ project, name }) => project === one.project && name === one.name)),
      );
      await caches.tidy(isBusy());
    } catch (error) {
      if (!signal.aborted) log(`cleanup of caches failed: ${messageOf(error)}`);
    }
  }
}

const tidyEveryMs = 5000;

/**
 * Removes the files of builds when their time is over, and when there is no room for them. Now and then the server is
 * asked about those that other suites begin with.
 */
export async function tidyKept(options: {
  link: Pick<Link, 'kept'>;
  kept: Pick<KeptBuilds, 'isEmpty' | 'tidy' | 'location' | 'forSuites' | 'update'> | undefined;
  signal: AbortSignal;
  log: (message: string) => void;
  everyMs?: number | undefined;
}): Promise<void> {
  const { link, kept, signal, log } = options;
  if (!kept) return;
  const askServer = async (): Promise<void> => {
    const known = kept.forSuites().filter(({ isNew }) => !isNew);
    const names = known.map(({ name }) => name);
    const answer =
      names.length === 0
        ? undefined
        : await link.kept({ location: kept.location, names }, signal).catch(() => undefined);
    if (answer) await kept.update(names, answer);
  };
  for (let turn = 0; !signal.aborted; turn += 1) {
    await pause(options.everyMs ?? tidyEveryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted || kept.isEmpty()) continue;
    const tidying = turn % askEvery === 0 ? askServer().then(() => kept.tidy()) : kept.tidy();
    await tidying.catch((error: unknown) => log(`cleanup of builds' files failed: ${String(error)}`));
  }
}
