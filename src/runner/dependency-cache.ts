import { join } from 'node:path';
import { randomName } from '../shared/lib/random-name.ts';
import { treeSize } from '../shared/lib/tree-size.ts';
import type { Link, Software } from '../shared/protocol/index.ts';
import { unpackTree } from './packages.ts';
import { unlessStoreAway } from './retry.ts';
import type { Limits, Mount, Sandboxes } from './sandbox/types.ts';
import { directoriesIn } from './search-paths.ts';
import { fetchBlob } from './transfers.ts';
import { openTreeStore, type MakeTree } from './tree-store.ts';

/** Compiled dependencies by digest, unpacked once and shared read-only. */
export interface DependencyCache {
  take(software: readonly Software[], signal: AbortSignal): Promise<Taken>;
}

/** The dependencies are retained until this is disposed of. */
export interface Taken extends Disposable {
  mounts: Mount[];
  /** The directories below a prefix for search paths. */
  directoriesAt: (prefix: string) => string[];
}

export interface DependencyCacheOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  /** The limit on all dependencies together. Only unused ones are removed. */
  mostBytes: number;
  log: (message: string) => void;
}

interface Unpacked {
  bytes: number;
  /** The directories for search paths. */
  directories: string[];
}

/** The unpacking is trusted, so these limits only guard against the worst case. */
const limits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 64, timeoutMs: 60 * 60 * 1000 };

export async function openDependencyCache(options: DependencyCacheOptions): Promise<DependencyCache> {
  const { folder, link, sandboxes, mostBytes, log } = options;
  const store = await openTreeStore<Unpacked>({ folder, outlives: 'restarts', parts: ['tree'], mostBytes, log });
  const bring =
    (digest: string): MakeTree<Unpacked> =>
    async ({ packed, tree }, signal) => {
      const root = rootOf(tree);
      await fetchBlob(link, digest, join(packed, 'software'), signal, unlessStoreAway);
      const packing = { id: `unpack-${randomName()}`, sandboxes, limits, signal };
      await unpackTree(packing, packed, 'software', root);
      return { bytes: await treeSize(root), directories: directoriesIn(root) };
    };

  return {
    async take(software, signal) {
      const digests = [...new Set(software.map(({ digest }) => digest))];
      using held = new DisposableStack();
      const results = await Promise.allSettled(digests.map((digest) => store.take(digest, bring(digest), signal)));
      const taken = results.flatMap((result) => (result.status === 'fulfilled' ? [held.use(result.value)] : []));
      const failed = results.find((result) => result.status === 'rejected');
      if (failed) throw failed.reason;
      const trees = new Map(taken.map((tree) => [tree.name, tree]));
      const at = Map.groupBy(software, ({ prefix }) => prefix);
      const treesAt = (prefix: string) => (at.get(prefix) ?? []).flatMap(({ digest }) => trees.get(digest) ?? []);
      const still = held.move();
      return {
        mounts: Array.from(at.keys(), (prefix) => ({
          at: prefix,
          layers: treesAt(prefix).map(({ path }) => rootOf(path)),
        })),
        directoriesAt: (prefix) => treesAt(prefix).flatMap(({ facts }) => facts.directories),
        [Symbol.dispose]: () => still.dispose(),
      };
    },
  };
}

const rootOf = (tree: string): string => join(tree, 'tree');
