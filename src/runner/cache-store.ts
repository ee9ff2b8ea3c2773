import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import { randomName } from '../shared/lib/random-name.ts';
import type { CacheTree, KeptTree, Link } from '../shared/protocol/index.ts';
import { packedIn, parts, unpackTree } from './cache-trees.ts';
import { unlessStoreAway } from './retry.ts';
import type { Sandboxes } from './sandbox/types.ts';
import { fetchBlob } from './transfers.ts';
import { openTreeStore, type Making, type TreeStore } from './tree-store.ts';

/**
 * The cache trees on this runner, by project and by the build that saved them. Their contents are untrusted, so the
 * runner never reads inside. The server has every tree as a blob, so they are flushed only while the runner is idle.
 */
export interface CacheStore extends Pick<TreeStore<CacheFacts>, 'begin' | 'projects' | 'forget'> {
  /** Fetches the tree if it is missing. It stays until the result is disposed of. */
  take(project: string, tree: CacheTree, signal: AbortSignal): Promise<TakenTree>;
  has(project: string, tree: CacheTree): boolean;
  /** Retains the tree until the result is disposed of. Undefined if the tree is missing. */
  hold(project: string, tree: CacheTree): Disposable | undefined;
  add(project: string, tree: CacheTree, making: Making): Promise<void>;
  /** Trees that have been unused for `idleMs`, at most as many as one call may name. */
  idle(): KeptTree[];
  /** Skips trees in use. */
  drop(trees: readonly KeptTree[]): Promise<void>;
  /** Removes least recently used trees while the disk lacks room. Flushes the others, unless jobs need the disk. */
  tidy(isBusy: boolean): Promise<void>;
}

export interface TakenTree extends Disposable {
  path: string;
}

interface CacheFacts {
  project: string;
  build: string;
  digest: string;
  /** When it was unpacked: no file in it is newer. */
  madeAt: number;
}

export interface CacheStoreOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
  unpack?: typeof unpackTree;
}

/** The server may not know a newly saved tree yet, so a tree counts as idle only after this time. */
const idleMs = 10 * 60_000;
const mostReported = 1000;
/** Free disk space for builds, in addition to the disk's reserve. */
const roomBytes = 1024 ** 3;

const keyOf = ({ project, name }: KeptTree): string => `${project}-${name}`;

const factsOf = (project: string, { name, digest }: CacheTree): CacheFacts => ({
  project,
  build: name,
  digest,
  madeAt: Date.now(),
});

export async function openCacheStore(options: CacheStoreOptions): Promise<CacheStore> {
  const { folder, link, sandboxes, disk, log, unpack = unpackTree } = options;
  const store = await openTreeStore<CacheFacts>({ folder, outlives: 'runners', parts, owner: sandboxes.owner, log });

  /** If the clock was set back, the tree is unpacked again, so that its files are not newer than now. */
  const isCurrent = ({ digest, madeAt }: CacheFacts, tree: CacheTree): boolean =>
    digest === tree.digest && madeAt <= Date.now();
  const has: CacheStore['has'] = (project, tree) => {
    const found = store.get(keyOf({ project, name: tree.name }));
    return found !== undefined && isCurrent(found.facts, tree);
  };

  return {
    async take(project, tree, signal) {
      const key = keyOf({ project, name: tree.name });
      if (!has(project, tree)) await store.remove(key);
      const make = async (making: Making, ending: AbortSignal): Promise<CacheFacts> => {
        // A build can work without its cache, so it does not wait while blob storage is unreachable.
        await fetchBlob(link, tree.digest, packedIn(making.packed), ending, unlessStoreAway);
        await unpack({ id: `unpack-${randomName()}`, sandboxes, signal: ending }, making);
        return factsOf(project, tree);
      };
      const taken = await store.take(key, make, signal, tree.digest);
      if (taken.facts.digest === tree.digest) return taken;
      taken[Symbol.dispose]();
      throw new Error('the build has saved another cache meanwhile');
    },
    has,
    hold: (project, tree) => (has(project, tree) ? store.hold(keyOf({ project, name: tree.name })) : undefined),
    begin: store.begin,
    async add(project, tree, making) {
      await store.add(keyOf({ project, name: tree.name }), making, factsOf(project, tree));
    },
    idle() {
      const before = Date.now() - idleMs;
      return store
        .all()
        .filter(({ usedAt, users }) => users === 0 && usedAt < before)
        .slice(0, mostReported)
        .map(({ facts: { project, build: name } }) => ({ project, name }));
    },
    async drop(trees) {
      for (const tree of trees) await store.remove(keyOf(tree));
    },
    projects: store.projects,
    forget: store.forget,
    async tidy(isBusy) {
      await store.makeRoom(async () => (await disk.room()) >= roomBytes);
      if (!isBusy) await store.flush();
    },
  };
}
