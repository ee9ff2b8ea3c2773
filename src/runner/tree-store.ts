import { renameSync } from 'node:fs';
import { chown, mkdir, open, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../shared/lib/error-code.ts';
import { flushFolder } from '../shared/lib/folders.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import { pathExists } from '../shared/lib/path-exists.ts';
import { run } from '../shared/lib/processes.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { sweepTree } from '../shared/lib/remove-tree.ts';
import { currentBoot } from './current-boot.ts';
import type { Identity } from './sandbox/types.ts';

/*
 * A folder of directory trees by name: caches, dependencies, images, data of services, files of builds, work trees, and
 * files that wait for the server. Each of these kinds decides a tree's content, its users and the order of removal.
 * Everything else is here.
 *
 *   NAME/            a complete tree
 *     about          its facts, as JSON
 *     boot           the machine's start in which it was made, until the tree is flushed to disk
 *   making.RANDOM/   a tree that is being made, as `tree`, and its maker's other files
 *   leaving.RANDOM/  a tree that is being removed
 *
 * Made once. A tree gets its name by a rename when it is complete. Simultaneous requests for a tree wait for the same
 * maker. When no request waits any longer, the maker is aborted. A maker uses the rights of its first request, so `by`
 * separates requests that must not share a maker.
 *
 * In use. A tree is in use until all holders have disposed of it. It is not removed before, so its mounts stay valid.
 * Uses are counted in memory, because only one runner has the folder (leftovers.ts).
 *
 * Removed. A rename frees the name at once. Then the content is removed without following links (lib/remove-tree.ts),
 * because builds and archives made it. The store reads only names and files that the runner itself wrote.
 *
 * After a kill. Opening the store removes everything incomplete. So does `sweepUnfinished`, for a runner that cannot
 * start before the disk has room. Unflushed trees are removed if the machine was restarted since, because they may have
 * lost bytes.
 */
export interface TreeStore<F extends Facts> {
  /** Holds a complete tree. */
  hold: (name: string) => HeldTree<F> | undefined;
  /** Holds a tree. If it is missing, `make` makes it and returns its facts. */
  take: (name: string, make: MakeTree<F>, signal: AbortSignal, by?: string) => Promise<HeldTree<F>>;
  /** Starts a new tree that only its maker knows. Disposal removes everything that was not added. */
  begin: () => Promise<Making>;
  /** Names a complete tree. If the name is taken, returns the existing tree. */
  add: (name: string, making: Making, facts: F) => Promise<Tree<F>>;
  get: (name: string) => Tree<F> | undefined;
  /** Least recently used first. */
  all: () => Tree<F>[];
  /** Does nothing if the tree is in use. */
  remove: (name: string) => Promise<void>;
  /** Frees the name of a tree that outlives nothing. The tree is removed when its users have disposed of it. */
  retire: (held: HeldTree<F>) => void;
  /** Removes unused trees, least recently used first, until there is room or none is left. */
  makeRoom: (isEnough: () => boolean | Promise<boolean>) => Promise<void>;
  /** Flushes all trees to disk. Then they outlive a restart of the machine. */
  flush: () => Promise<void>;
  projects: () => string[];
  /** Removes a project's unused trees. */
  forget: (project: string) => Promise<void>;
}

/** Must survive JSON. */
export interface Facts {
  project?: string;
  bytes?: number;
}

export interface Tree<F extends Facts> {
  readonly name: string;
  readonly path: string;
  readonly facts: F;
  readonly users: number;
  readonly usedAt: number;
}

export type HeldTree<F extends Facts> = Pick<Tree<F>, 'name' | 'path' | 'facts'> & Disposable;

export interface Making extends AsyncDisposable {
  /** The directory that becomes the tree, with its parts. */
  tree: string;
  /** The directory for the file that the tree is unpacked from or packed into. */
  packed: string;
  /** The directory around both. Everything in it except the tree is removed. */
  aside: string;
}

export type MakeTree<F extends Facts> = (making: Making, signal: AbortSignal) => Promise<F>;

/**
 * How long a tree lasts:
 * - `nothing`: at most as long as its runner.
 * - `runners`: it outlives runners, and restarts of the machine if it was flushed.
 * - `restarts`: it outlives restarts in any case.
 * - `crashes`: it also outlives crashes of the machine. Its maker must flush the files.
 */
export type Outlives = 'nothing' | 'runners' | 'restarts' | 'crashes';

export interface TreeStoreOptions<F extends Facts> {
  folder: string;
  outlives: Outlives;
  /** Directories that every tree has. `begin` creates them. */
  parts?: readonly string[];
  /** The owner of `parts` and `packed`, if sandboxes write there. */
  owner?: Identity;
  /** The mode of the folder and of trees. */
  mode?: number;
  /** The limit on all trees together, if their facts have `bytes`. Only unused trees are removed. */
  mostBytes?: number;
  onGone?: (tree: Tree<F>) => void;
  log: (message: string) => void;
}

interface Entry<F extends Facts> extends Tree<F> {
  users: number;
  usedAt: number;
  isFlushed: boolean;
  isGone: boolean;
}

interface Flight<F extends Facts> {
  work: Promise<Entry<F>>;
  aborting: AbortController;
  waiting: number;
}

const [aboutFile, bootFile] = ['about', 'boot'];
const isUnfinished = (name: string): boolean => /^(making|leaving)[.-]/.test(name);
const isName = (name: string): boolean => /^[\w-][\w.-]*$/.test(name) && !isUnfinished(name);

export async function openTreeStore<F extends Facts>(options: TreeStoreOptions<F>): Promise<TreeStore<F>> {
  const { folder, outlives, parts = [], owner, mode = 0o711, mostBytes = Infinity, onGone = () => {}, log } = options;
  await mkdir(folder, { recursive: true, mode });
  const boot = await currentBoot();

  const load = async (name: string): Promise<Entry<F> | undefined> => {
    if (outlives === 'nothing' || !isName(name)) return undefined;
    const path = join(folder, name);
    const madeIn = await readFile(join(path, bootFile), 'utf8').catch(() => undefined);
    if (madeIn !== undefined && madeIn !== boot) return undefined;
    for (const part of parts) if (!(await pathExists(join(path, part), 'directory'))) return undefined;
    const facts = JSON.parse(await readFile(join(path, aboutFile), 'utf8')) as F | null;
    if (typeof facts !== 'object' || facts === null) return undefined;
    const { mtimeMs: usedAt } = await stat(path);
    return { name, path, facts, users: 0, usedAt, isFlushed: madeIn === undefined, isGone: false };
  };
  const found: Entry<F>[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isFile()) continue; // a file is no tree
    const tree = entry.isDirectory() ? await load(entry.name).catch(() => undefined) : undefined;
    if (tree) found.push(tree);
    else await sweepTree(join(folder, entry.name), log);
  }
  /** Ordered by last use. */
  const trees = new Map(found.toSorted((a, b) => a.usedAt - b.usedAt).map((tree) => [tree.name, tree]));
  const flights = new Map<string, Flight<F>>();

  const begin = async (): Promise<Making> => {
    const aside = join(folder, `making.${randomName()}`);
    const [tree, packed] = [join(aside, 'tree'), join(aside, 'packed')];
    const end = (): Promise<void> => sweepTree(aside, log);
    try {
      await mkdir(tree, { recursive: true, mode });
      for (const path of [packed, ...parts.map((part) => join(tree, part))]) {
        await mkdir(path, { mode: 0o755 });
        if (owner && process.getuid?.() === 0) await chown(path, owner.uid, owner.gid);
      }
    } catch (error) {
      await end();
      throw error;
    }
    return { aside, tree, packed, [Symbol.asyncDispose]: end };
  };

  const add = async (name: string, { tree }: Making, facts: F): Promise<Entry<F>> => {
    if (!isName(name)) throw new Error(`${name} is not the name of a tree`);
    if (outlives !== 'nothing') await writeFile(join(tree, aboutFile), JSON.stringify(facts), { mode: 0o600 });
    if (outlives === 'runners') await writeFile(join(tree, bootFile), boot, { mode: 0o600 });
    if (outlives === 'crashes') {
      await using about = await open(join(tree, aboutFile));
      await about.sync();
      await flushFolder(tree);
    }
    const known = trees.get(name);
    if (known) return known;
    // Retired trees with the same name may still be in the folder.
    const path = join(folder, outlives === 'nothing' ? `${name}-${randomName()}` : name);
    renameSync(tree, path);
    const isFlushed = outlives !== 'runners';
    const entry = { name, path, facts, users: 0, usedAt: Date.now(), isFlushed, isGone: false };
    trees.set(name, entry);
    if (outlives === 'crashes') await flushFolder(folder);
    return entry;
  };

  const discard = async (entry: Entry<F>): Promise<void> => {
    if (trees.get(entry.name) === entry) trees.delete(entry.name);
    entry.isGone = true;
    onGone(entry);
    const leaving = join(folder, `leaving.${randomName()}`);
    renameSync(entry.path, leaving);
    await sweepTree(leaving, log);
  };
  const remove = async (name: string): Promise<void> => {
    const entry = trees.get(name);
    if (entry?.users === 0) await discard(entry);
  };

  const makeRoom: TreeStore<F>['makeRoom'] = async (isEnough) => {
    for (const { name, users } of trees.values()) {
      if (users > 0) continue;
      if (await isEnough()) return;
      await remove(name);
    }
  };
  const isWithinLimit = (): boolean =>
    trees.values().reduce((sum, { facts }) => sum + (facts.bytes ?? 0), 0) <= mostBytes;
  const logged = (error: unknown): void => log(`cleanup of ${folder} failed: ${messageOf(error)}`);
  let tidying: Promise<void> | undefined;
  const release = (entry: Entry<F>): void => {
    entry.users -= 1;
    if (entry.users === 0 && trees.get(entry.name) !== entry) discard(entry).catch(logged);
    tidying ??= makeRoom(isWithinLimit)
      .catch(logged) // the next release tries again
      .finally(() => (tidying = undefined));
  };

  const use = (entry: Entry<F>): HeldTree<F> => {
    const { name, path, facts } = entry;
    if (trees.get(name) === entry) {
      trees.delete(name);
      trees.set(name, entry);
    }
    entry.users += 1;
    entry.usedAt = Date.now();
    if (outlives !== 'nothing') void utimes(path, new Date(), new Date()).catch(() => {});
    let isHeld = true;
    const letGo = (): void => {
      if (isHeld) release(entry);
      isHeld = false;
    };
    return { name, path, facts, [Symbol.dispose]: letGo };
  };

  const makeOne = async (name: string, make: MakeTree<F>, signal: AbortSignal): Promise<Entry<F>> => {
    await using making = await begin();
    return await add(name, making, await make(making, signal));
  };
  const fly = async (name: string, make: MakeTree<F>, signal: AbortSignal, key: string): Promise<Entry<F>> => {
    let flight = flights.get(key);
    if (!flight) {
      const aborting = new AbortController();
      const work = makeOne(name, make, aborting.signal);
      const fresh = { work, aborting, waiting: 0 };
      const land = (): void => void (flights.get(key) === fresh && flights.delete(key));
      work.then(land, land); // the requests that wait get the error
      flights.set(key, fresh);
      flight = fresh;
    }
    flight.waiting += 1;
    try {
      return await orAborted(flight.work, signal);
    } finally {
      flight.waiting -= 1;
      if (flight.waiting === 0) {
        flight.aborting.abort(new Error('it is no longer needed'));
        if (flights.get(key) === flight) flights.delete(key);
        await flight.work.catch(() => {}); // waits until its files are removed
      }
    }
  };

  return {
    hold(name) {
      const entry = trees.get(name);
      return entry && use(entry);
    },
    async take(name, make, signal, by = '') {
      for (;;) {
        signal.throwIfAborted();
        const entry = trees.get(name) ?? (await fly(name, make, signal, `${name} ${by}`));
        if (!entry.isGone) return use(entry);
      }
    },
    begin,
    add,
    get: (name) => trees.get(name),
    all: () => [...trees.values()],
    remove,
    retire({ name, path }) {
      if (trees.get(name)?.path === path) trees.delete(name);
    },
    makeRoom,
    async flush() {
      const unflushed = Array.from(trees.values()).filter(({ isFlushed }) => !isFlushed);
      if (unflushed.length === 0) return;
      const { status } = await run('sync', ['--file-system', '--', folder]);
      if (status !== 0) return;
      for (const entry of unflushed) {
        entry.isFlushed = true;
        await rm(join(entry.path, bootFile), { force: true }).catch(() => {}); // the tree was removed meanwhile
      }
    },
    projects: () => [...new Set(Array.from(trees.values()).flatMap(({ facts: { project } }) => project ?? []))],
    async forget(project) {
      for (const { name, facts } of trees.values()) if (facts.project === project) await remove(name);
    },
  };
}

/** Removes what a killed runner was making or removing. */
export async function sweepUnfinished(folder: string, log: (message: string) => void): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) if (isUnfinished(name)) await sweepTree(join(folder, name), log);
}
