import { chown, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import { isId } from '../shared/lib/ids.ts';
import { pathExists } from '../shared/lib/path-exists.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import { run } from '../shared/lib/processes.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { removeTree, sweepTree } from '../shared/lib/remove-tree.ts';
import type { CacheTree, KeptTree, Link } from '../shared/protocol/index.ts';
import { currentBoot } from './current-boot.ts';
import { packedIn, parts, unpackTree, type Making } from './cache-trees.ts';
import { unlessStoreAway } from './retry.ts';
import type { Sandboxes } from './sandbox/types.ts';
import { fetchBlob } from './transfers.ts';

/**
 * The cache trees on this runner, by project and by the build that saved them. Builds made their contents, so the
 * runner never reads inside. A tree gets its name by a rename when it is complete. It is flushed to disk only when the
 * runner is idle, and is valid only until a restart of the machine before that. The server has every tree as a blob.
 */
export interface CacheStore {
  /** Fetches the tree if it is missing. It stays until the result is disposed of. */
  take(project: string, tree: CacheTree, signal: AbortSignal): Promise<TakenTree>;
  has(project: string, tree: CacheTree): boolean;
  /** Keeps a present tree until the result is disposed of; undefined if it is missing. */
  hold(project: string, tree: CacheTree): Disposable | undefined;
  begin(): Promise<Making>;
  add(project: string, tree: CacheTree, making: Making): Promise<void>;
  /** Trees that were unused for a while, at most as many as one call may name. */
  idle(): KeptTree[];
  /** Skips trees in use. */
  drop(trees: readonly KeptTree[]): Promise<void>;
  projects(): string[];
  forget(project: string): Promise<void>;
  /** Removes least recently used trees while the disk lacks room. Flushes the others, unless jobs need the disk. */
  tidy(isBusy: boolean): Promise<void>;
}

export interface TakenTree extends Disposable {
  path: string;
}

interface Entry extends KeptTree {
  digest: string;
  ready: Promise<void>;
  isReady: boolean;
  /** Ends the fetch when nothing waits for it. */
  aborting: AbortController;
  users: number;
  usedAt: number;
  /** When it was unpacked: no file in it is newer. */
  madeAt: number;
  bytes: number;
  isOnDisk: boolean;
}

export interface CacheStoreOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
  unpack?: typeof unpackTree;
}

/** The server does not know a tree yet that was just saved, so only older ones count as idle. */
const idleMs = 10 * 60_000;
const mostReported = 1000;
/** Free disk space for builds, in addition to the disk's reserve. */
const roomBytes = 1024 ** 3;

const isAhead = ({ madeAt }: Entry): boolean => madeAt > Date.now();
const keyOf = ({ project, name }: KeptTree): string => `${project}/${name}`;

export async function openCacheStore(options: CacheStoreOptions): Promise<CacheStore> {
  const { folder, link, sandboxes, disk, log, unpack = unpackTree } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const entries = new Map<string, Entry>();
  for (const entry of await presentIn(folder, log)) entries.set(keyOf(entry), entry);
  const pathOf = (entry: KeptTree): string => join(folder, entry.project, entry.name);

  const begin = async (): Promise<Making> => {
    const making = join(folder, `making-${randomName()}`);
    const [tree, packed] = [join(making, 'tree'), join(making, 'packed')];
    for (const path of [making, tree]) await mkdir(path, { mode: 0o711 });
    for (const path of [packed, ...parts.map((part) => join(tree, part))]) {
      await mkdir(path, { mode: 0o755 });
      if (process.getuid?.() === 0) await chown(path, sandboxes.owner.uid, sandboxes.owner.gid);
    }
    return { packed, tree, [Symbol.asyncDispose]: () => sweepTree(making, log) };
  };

  const finish = async (entry: Entry, { tree }: Making): Promise<void> => {
    entry.madeAt = Date.now();
    const { digest, bytes, madeAt } = entry;
    await writeFile(join(tree, 'about'), JSON.stringify({ digest, bytes, madeAt }));
    await writeFile(join(tree, 'boot'), await currentBoot());
    await mkdir(join(folder, entry.project), { recursive: true, mode: 0o711 });
    await rename(tree, pathOf(entry));
    entry.isReady = true;
  };

  const bring = async (entry: Entry): Promise<void> => {
    await using making = await begin();
    const { signal } = entry.aborting;
    // A build can work without its cache, so it does not wait while blob storage is unreachable.
    await fetchBlob(link, entry.digest, packedIn(making.packed), signal, unlessStoreAway);
    const packing = { id: `unpack-${randomName()}`, sandboxes, signal };
    await unpack(packing, making);
    await finish(entry, making);
  };

  const release = (entry: Entry): void => {
    entry.users -= 1;
    if (entry.users === 0 && !entry.isReady) entry.aborting.abort(new Error('nobody waits for this cache any more'));
  };

  const remove = async (entry: Entry): Promise<void> => {
    if (entry.users > 0 || !entry.isReady) return;
    entries.delete(keyOf(entry));
    const leaving = join(folder, `leaving-${randomName()}`);
    await rename(pathOf(entry), leaving);
    await removeTree(leaving);
  };

  /** In sequence, because each tree may be on the disk that is measured. */
  const makeRoom = async (): Promise<void> => {
    const oldest = Array.from(entries.values()).toSorted((a, b) => a.usedAt - b.usedAt);
    for (const entry of oldest) {
      if ((await disk.room()) >= roomBytes) return;
      await remove(entry);
    }
  };

  const writeOut = async (): Promise<void> => {
    const unwritten = Array.from(entries.values()).filter(({ isReady, isOnDisk }) => isReady && !isOnDisk);
    if (unwritten.length === 0) return;
    const { status } = await run('sync', ['--file-system', '--', folder]);
    if (status !== 0) return;
    for (const entry of unwritten) {
      entry.isOnDisk = true;
      await rm(join(pathOf(entry), 'boot'), { force: true }).catch(() => {}); // removed meanwhile
    }
  };

  const has: CacheStore['has'] = (project, { name, digest }) => {
    const entry = entries.get(keyOf({ project, name }));
    return entry?.isReady === true && entry.digest === digest && !isAhead(entry);
  };

  return {
    async take(project, tree, signal) {
      const key = keyOf({ project, name: tree.name });
      let entry = entries.get(key);
      // The clock was set back. When unpacked again, the files get times in the past.
      if (entry && isAhead(entry)) await remove(entry);
      entry = entries.get(key);
      if (!entry || entry.aborting.signal.aborted || entry.digest !== tree.digest) {
        const fresh = entryOf({ ...tree, project }, false);
        fresh.ready = bring(fresh);
        fresh.ready.catch(() => {
          if (entries.get(key) === fresh) entries.delete(key); // whoever waits for it gets the error
        });
        entries.set(key, fresh);
        entry = fresh;
      }
      const mine = entry;
      mine.users += 1;
      try {
        await orAborted(mine.ready, signal);
      } catch (error) {
        release(mine);
        throw error;
      }
      mine.usedAt = Date.now();
      void utimes(pathOf(mine), new Date(), new Date()).catch(() => {});
      return { path: pathOf(mine), [Symbol.dispose]: () => release(mine) };
    },
    has,
    hold(project, tree) {
      const entry = has(project, tree) ? entries.get(keyOf({ project, name: tree.name })) : undefined;
      if (!entry) return undefined;
      entry.users += 1;
      return { [Symbol.dispose]: () => release(entry) };
    },
    begin,
    async add(project, tree, making) {
      const entry = entryOf({ ...tree, project }, false);
      await finish(entry, making);
      entries.set(keyOf(entry), entry);
    },
    idle() {
      const before = Date.now() - idleMs;
      const idle = Array.from(entries.values()).filter(
        ({ usedAt, isReady, users }) => isReady && users === 0 && usedAt < before,
      );
      return idle
        .toSorted((a, b) => a.usedAt - b.usedAt)
        .slice(0, mostReported)
        .map(({ project, name }) => ({ project, name }));
    },
    async drop(trees) {
      for (const tree of trees) {
        const entry = entries.get(keyOf(tree));
        if (entry) await remove(entry);
      }
    },
    projects: () => [...new Set(Array.from(entries.values(), ({ project }) => project))],
    async forget(project) {
      for (const entry of entries.values()) if (entry.project === project) await remove(entry);
    },
    async tidy(isBusy) {
      await makeRoom();
      if (!isBusy) await writeOut();
    },
  };
}

function entryOf({ project, name, digest, bytes }: CacheTree & KeptTree, isReady: boolean): Entry {
  const aborting = new AbortController();
  const state = {
    ready: Promise.resolve(),
    isReady,
    aborting,
    users: 0,
    usedAt: Date.now(),
    madeAt: 0,
    isOnDisk: false,
  };
  return { project, name, digest, bytes, ...state };
}

/** Trees of an earlier runner. Removes unfinished ones, and those that a power cut may have damaged. */
async function presentIn(folder: string, log: (message: string) => void): Promise<Entry[]> {
  const found: Entry[] = [];
  const boot = await currentBoot();
  for (const project of await readdir(folder)) {
    if (!isId(project)) {
      await sweepTree(join(folder, project), log);
      continue;
    }
    for (const name of await readdir(join(folder, project))) {
      const entry = isId(name) ? await presentOne(folder, { project, name }, boot).catch(() => undefined) : undefined;
      if (entry) found.push(entry);
      else await sweepTree(join(folder, project, name), log);
    }
  }
  return found;
}

async function presentOne(folder: string, tree: KeptTree, boot: string): Promise<Entry | undefined> {
  const path = join(folder, tree.project, tree.name);
  const made = await readFile(join(path, 'boot'), 'utf8').catch(() => undefined);
  if (made !== undefined && made !== boot) return undefined;
  for (const part of parts) if (!(await pathExists(join(path, part), 'directory'))) return undefined;
  const text = await readFile(join(path, 'about'), 'utf8');
  const { digest, bytes, madeAt } = JSON.parse(text) as Pick<Entry, 'digest' | 'bytes' | 'madeAt'>;
  const { mtimeMs: usedAt } = await stat(path);
  return { ...entryOf({ ...tree, digest, bytes }, true), usedAt, madeAt, isOnDisk: made === undefined };
}
