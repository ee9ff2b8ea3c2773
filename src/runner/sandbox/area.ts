import { lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../lib/remove-tree.ts';
import { PLACES, type Identity } from './types.ts';
import { setStage, type Stage } from './stage.ts';
import { SLOT_ON_BENCH, type Workbench } from './workbench.ts';

/**
 * The directories of a slot's runs: `/tmp`, the home, and what a run changes in its workspace. They lie on disk,
 * not in memory, where they would count against the run's limit.
 *
 * Every run finds them empty. What a run has touched is removed after it and made anew; what it has not touched
 * serves the next run, and so does the overlay over a checkout, if the next run is of the same: on a busy disk,
 * making and removing half a dozen directories costs more than the whole sandbox. The time of a directory's last
 * change tells: every entry, mode or attribute that anybody sets moves it, and no build can set it back. It tells
 * only if it was clearly past when the run began, since file systems count time in steps of some milliseconds;
 * otherwise the directory counts as touched. That is why a slot has two areas and its runs take turns on them: what was
 * made anew has rested for a whole run before it is used.
 */
export interface Area {
  readonly stage: Stage;
  /** An empty directory that belongs to the build, as the runner sees it. */
  directory(name: OwnDirectory): string;
  /** The same directory as the bench sees it. */
  onBench(name: OwnDirectory): string;
  /** Shows the checkout as the workspace, for the run to change. */
  overlay(checkout: string): void;
  /** Takes off a checkout that is still there from another run, to make room for something else. */
  noOverlay(): void;
  /** Settles when all of that is there. */
  settled(): Promise<void>;
  /** From here on the run may touch everything. */
  handOver(): void;
  /** Removes what the run has touched. */
  reset(): Promise<void>;
  close(): void;
}

const MODES = { tmp: 0o1777, home: 0o755, changes: 0o755, work: 0o755, workspace: 0o755, layers: 0o755 };
export type OwnDirectory = keyof typeof MODES;

/** What nearly every run needs, made ahead of it. */
const AHEAD: readonly OwnDirectory[] = ['tmp', 'home', 'changes', 'work'];
const CLEARLY_PAST_NS = 20_000_000n;
/** An overlay keeps files of its checkout alive even when they are deleted, so it is not kept for long. */
const KEEP_OVERLAY_MS = 10_000;

/** What every run has at the same place. */
const SHOWN: { [name in OwnDirectory]?: string } = { tmp: '/tmp', home: PLACES.home };

interface AreaOptions {
  folder: string;
  name: string;
  bench: Workbench;
  owner: Identity;
}

interface LastRun {
  checkout: string;
  identity: string;
}

export async function openArea(options: AreaOptions): Promise<Area> {
  const { bench, owner } = options;
  const folder = join(options.folder, options.name);
  const path = (name: OwnDirectory): string => join(folder, name);
  const onBench = (name: OwnDirectory): string => join(SLOT_ON_BENCH, options.name, name);
  mkdirSync(folder, { mode: 0o711 });
  const stage = await setStage(bench, options.name);
  const target = stage.at(PLACES.workspace);
  const made = new Set<OwnDirectory>();
  const used = new Map<OwnDirectory, bigint>();
  let requests: Promise<void>[] = [];
  let laidOver: string | null = null;
  let lastRun: LastRun | undefined;
  let isRepeated = false;
  let handedOver = 0n;
  let expiry: NodeJS.Timeout | undefined;

  const request = (promise: Promise<void>): void => {
    promise.catch(() => {}); // whoever waits for all of them is told
    requests.push(promise);
  };
  const make = (name: OwnDirectory): void => {
    if (made.has(name)) return;
    made.add(name);
    request(bench.directory(path(name), MODES[name], owner));
    const place = SHOWN[name];
    if (place !== undefined) request(bench.bind(onBench(name), stage.at(place), 'rw'));
  };
  const use = (name: OwnDirectory): string => {
    make(name);
    used.set(name, 0n);
    return path(name);
  };
  const remove = async (names: readonly OwnDirectory[]): Promise<void> => {
    for (const name of names) made.delete(name);
    if (names.length === 0) return;
    const places = names.flatMap((name) => SHOWN[name] ?? []);
    const cleared = bench.clear(places.map((place) => stage.at(place)));
    const removed = bench.removeSmall(names.map(path)).catch(async () => {
      for (const name of names) await removeTree(path(name));
    });
    await Promise.all([cleared, removed]);
  };
  const takeOff = async (): Promise<void> => {
    laidOver = null;
    await Promise.all([bench.clear([target]), remove(['changes', 'work'])]);
  };
  const layOver = ({ checkout, identity }: LastRun): void => {
    make('changes');
    make('work');
    const upper = { directory: path('changes'), work: path('work') };
    if (laidOver !== identity) request(bench.overlay(target, { lower: [checkout], upper }));
    laidOver = identity;
  };
  AHEAD.forEach(make);
  const takeOffAllBut = (wanted: string | null): void => {
    clearTimeout(expiry);
    if (laidOver !== null && laidOver !== wanted) request(takeOff());
  };
  return {
    stage,
    directory: use,
    onBench,
    noOverlay: () => takeOffAllBut(null),
    overlay: (checkout) => {
      const wanted = identityOf(checkout);
      takeOffAllBut(wanted);
      isRepeated = lastRun?.identity === wanted;
      lastRun = { checkout, identity: wanted };
      layOver(lastRun);
      use('changes');
      use('work');
    },
    settled: async () => {
      await Promise.all(requests);
      requests = [];
      for (const name of used.keys()) used.set(name, changeOf(path(name)));
    },
    handOver: () => (handedOver = BigInt(Date.now()) * 1_000_000n),
    reset: async () => {
      const touched = [...used]
        .filter(([name, before]) => handedOver - before < CLEARLY_PAST_NS || changeOf(path(name)) !== before)
        .map(([name]) => name)
        .filter((name) => name !== 'work'); // no build can reach that one; it stays and goes with `changes`
      used.clear();
      const changed = touched.includes('changes');
      await Promise.all([changed ? takeOff() : undefined, remove(touched.filter((name) => name !== 'changes'))]);
      AHEAD.forEach(make);
      // What was built twice in a row is likely to be built again. Its overlay then has rested, and stays if not touched.
      if (changed && isRepeated && lastRun) layOver(lastRun);
      clearTimeout(expiry);
      if (laidOver !== null) expiry = setTimeout(() => request(takeOff()), KEEP_OVERLAY_MS).unref();
    },
    close: () => clearTimeout(expiry),
  };
}

function changeOf(path: string): bigint {
  return lstatSync(path, { bigint: true }).ctimeNs;
}

/** A checkout that was removed and made again at the same path is another one. */
function identityOf(checkout: string): string {
  const { dev, ino, birthtimeNs } = lstatSync(checkout, { bigint: true });
  return [checkout, dev, ino, birthtimeNs].join(' ');
}

export { removeTree };
