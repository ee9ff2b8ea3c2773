import { setTimeout as pause } from 'node:timers/promises';
import { most } from '../shared/domain/bounds.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import { isId } from '../shared/lib/ids.ts';
import type { Link } from '../shared/protocol/index.ts';
import type { CacheStore } from './cache-store.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { KeptBuilds } from './kept-builds.ts';
import type { RunnerDeps } from './job-runner.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

/** `everyMs` replaces the usual pauses between turns. */
export interface Upkeep {
  isBusy: () => boolean;
  signal: AbortSignal;
  log: (message: string) => void;
  everyMs?: number | undefined;
}

/** Cleans up the runner's disk until the signal. */
export async function keepUp(link: Link, deps: RunnerDeps, upkeep: Upkeep): Promise<void> {
  const { mirrors, caches, trees, serviceData, kept } = deps;
  await Promise.all([
    tidyMirrors(mirrors, upkeep),
    forgetProjects(link, deps, upkeep),
    ...[caches, trees, serviceData].map((store) => store && tidyCaches(link, store, upkeep)),
    kept && tidyKept(link, kept, upkeep),
  ]);
}

/** Repeats `work`. A failure is logged, and the next turn retries. */
async function regularly(
  { signal, log, everyMs }: Upkeep,
  what: string,
  pauseMs: number,
  work: (turn: number) => Promise<void>,
): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await pause(everyMs ?? pauseMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      await work(turn);
    } catch (error) {
      if (!signal.aborted) log(`cleanup of ${what} failed: ${messageOf(error)}`);
    }
  }
}

/** Removes unused mirrors once a day. A runner that is busy for a whole day does it during its jobs. */
export async function tidyMirrors(mirrors: Pick<Mirrors, 'collect'>, upkeep: Upkeep): Promise<void> {
  let due = performance.now();
  await regularly(upkeep, 'mirrors', minute, async () => {
    const now = performance.now();
    if (now < due || (upkeep.isBusy() && now < due + day)) return;
    due = now + day;
    await mirrors.collect(undefined, upkeep.signal);
  });
}

type Named = Pick<CacheStore, 'projects' | 'forget'>;

export interface ProjectStores extends Record<'caches' | 'trees' | 'outbox', Named> {
  mirrors: Pick<Mirrors, 'projects' | 'forget'>;
  checkouts: Pick<Checkouts, 'forget'>;
  serviceData?: Named | undefined;
  kept?: Named | undefined;
}

const askEveryMs = 5000;

/** Removes the data of deleted projects. A later turn removes data that is in use. */
export async function forgetProjects(link: Pick<Link, 'gone'>, stores: ProjectStores, upkeep: Upkeep): Promise<void> {
  const { mirrors, checkouts, caches, trees, serviceData, outbox, kept } = stores;
  const named = [caches, trees, outbox, serviceData, kept].filter((store) => store !== undefined);
  let from = 0;
  await regularly(upkeep, 'deleted projects', askEveryMs, async () => {
    const all = new Set([...(await mirrors.projects()), ...named.flatMap((store) => store.projects())]);
    const known = [...all].filter(isId);
    if (from >= known.length) from = 0;
    const some = known.slice(from, from + most.askedAbout);
    from += some.length;
    if (some.length === 0) return;
    const gone = await link.gone({ projects: some }, upkeep.signal).catch(() => []);
    for (const project of gone.filter((name) => some.includes(name))) {
      await Promise.all([mirrors, checkouts, ...named].map((store) => store.forget(project))).catch((error: unknown) =>
        upkeep.log(`cleanup failed, data of the deleted project ${project} stays: ${String(error)}`),
      );
    }
  });
}

/** Only every tenth turn asks the server, so that an idle runner costs it little. */
const askEvery = 10;

/** Removes trees that no cache uses, and makes room. Flushes the other trees while the runner has no job. */
async function tidyCaches(link: Pick<Link, 'stale'>, caches: CacheStore, upkeep: Upkeep): Promise<void> {
  await regularly(upkeep, 'caches', minute, async (turn) => {
    const idle = turn % askEvery === 0 ? caches.idle() : [];
    const stale = idle.length > 0 ? await link.stale({ trees: idle }, upkeep.signal).catch(() => []) : [];
    await caches.drop(
      stale.filter((one) => idle.some(({ project, name }) => project === one.project && name === one.name)),
    );
    await caches.tidy(upkeep.isBusy());
  });
}

const tidyEveryMs = 5000;

/** Removes expired files of builds, and makes room. Some turns ask the server about files for other suites. */
async function tidyKept(link: Pick<Link, 'kept'>, kept: KeptBuilds, upkeep: Upkeep): Promise<void> {
  const { location } = kept;
  await regularly(upkeep, "builds' files", tidyEveryMs, async (turn) => {
    if (kept.isEmpty()) return;
    const known = turn % askEvery === 0 ? kept.forSuites().filter(({ isNew }) => !isNew) : [];
    const names = known.map(({ name }) => name);
    const answer =
      names.length === 0 ? undefined : await link.kept({ location, names }, upkeep.signal).catch(() => undefined);
    if (answer) await kept.update(names, answer);
    await kept.tidy();
  });
}
