import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../lib/processes.ts';
import { removeTree, sweepTree } from '../lib/remove-tree.ts';
import type { Link, Software } from '../protocol.ts';
import { unpackTree } from './packages.ts';
import type { Limits, Mount, Sandboxes } from './sandbox/types.ts';
import { placesIn } from './search-paths.ts';
import { fetchBlob } from './transfers.ts';

/**
 * Compiled software, unpacked once on this machine and shared read-only by all that use it. The first that needs a
 * piece brings it, while the others wait. It stays, also over restarts, until room is needed for others: then what was
 * not used for longest goes first.
 */
export interface DependencyCache {
  take(software: readonly Software[], signal: AbortSignal): Promise<Taken>;
}

/** Stays where it is as long as this is not disposed of. */
export interface Taken extends Disposable {
  mounts: Mount[];
  /** The directories that matter for finding things, below a prefix. */
  placesAt: (prefix: string) => string[];
}

export interface DependencyCacheOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  /** What lies here may take up so much, as long as it is not in use. */
  mostBytes: number;
  log: (message: string) => void;
}

interface Entry {
  digest: string;
  tree: string;
  ready: Promise<void>;
  /** Ends the bringing when nobody waits for it any more. */
  leave: AbortController;
  isReady: boolean;
  users: number;
  bytes: number;
  places: string[];
}

/** Unpacking is our own work: its limits are there for the worst case alone. */
const limits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 64, timeoutMs: 60 * 60 * 1000 };

export async function openDependencyCache(options: DependencyCacheOptions): Promise<DependencyCache> {
  const { folder, link, sandboxes, mostBytes, log } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  await sweepDependencyCache(folder, log);
  const entries = await present(folder, log);

  const bring = async (entry: Entry): Promise<void> => {
    const { signal } = entry.leave;
    const making = join(folder, `making-${randomUUID()}`);
    const tree = join(making, 'tree');
    const packed = join(making, 'packed');
    try {
      for (const path of [making, tree, packed]) await mkdir(path, { mode: 0o755 });
      await fetchBlob(link, entry.digest, join(packed, 'software'), signal);
      const packing = { id: `dependencyCache-${randomUUID()}`, sandboxes, limits, signal };
      await unpackTree(packing, packed, 'software', tree);
      await removeTree(packed);
      entry.bytes = await sizeOf(tree);
      await writeFile(join(making, 'size'), String(entry.bytes));
      await rename(making, join(folder, entry.digest));
      entry.places = placesIn(entry.tree);
      entry.isReady = true;
    } catch (error) {
      entries.delete(entry.digest);
      await sweepTree(making, log);
      throw error;
    }
  };

  const begin = (digest: string): Entry => {
    const leave = new AbortController();
    const tree = join(folder, digest, 'tree');
    const entry: Entry = {
      digest,
      tree,
      leave,
      isReady: false,
      users: 0,
      bytes: 0,
      places: [],
      ready: Promise.resolve(),
    };
    entry.ready = bring(entry);
    entry.ready.catch(() => {}); // those who wait are told
    return entry;
  };

  const makeRoom = async (): Promise<void> => {
    let bytes = 0;
    for (const entry of entries.values()) bytes += entry.bytes;
    for (const [digest, entry] of entries) {
      if (bytes <= mostBytes) return;
      if (entry.users > 0 || !entry.isReady) continue;
      entries.delete(digest);
      bytes -= entry.bytes;
      const leaving = join(folder, `leaving-${randomUUID()}`);
      await rename(join(folder, digest), leaving);
      await removeTree(leaving);
    }
  };
  let tidying: Promise<void> | undefined;
  const release = (entry: Entry): void => {
    entry.users -= 1;
    if (entry.users === 0 && !entry.isReady) entry.leave.abort();
    tidying ??= makeRoom()
      .catch(() => {}) // what could not be removed is tried again by the next
      .finally(() => (tidying = undefined));
  };

  const hold = async (digest: string, signal: AbortSignal): Promise<Entry> => {
    const known = entries.get(digest);
    const entry = known && !known.leave.signal.aborted ? known : begin(digest);
    entries.delete(digest); // used last, removed last
    entries.set(digest, entry);
    entry.users += 1;
    try {
      await orAborted(entry.ready, signal);
    } catch (error) {
      release(entry);
      throw error;
    }
    if (known) void utimes(join(folder, digest), new Date(), new Date()).catch(() => {});
    return entry;
  };

  return {
    async take(software, signal) {
      const digests = [...new Set(software.map(({ digest }) => digest))];
      const results = await Promise.allSettled(digests.map((digest) => hold(digest, signal)));
      const held = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      const letGo = (): void => held.forEach(release);
      const failed = results.find((result) => result.status === 'rejected');
      if (failed) {
        letGo();
        throw failed.reason;
      }
      const entryOf = (digest: string): Entry => held.find((entry) => entry.digest === digest) as Entry;
      const at = Map.groupBy(software, ({ prefix }) => prefix);
      return {
        mounts: Array.from(at, ([prefix, all]) => ({
          at: prefix,
          layers: all.map(({ digest }) => entryOf(digest).tree),
        })),
        placesAt: (prefix) => (at.get(prefix) ?? []).flatMap(({ digest }) => entryOf(digest).places),
        [Symbol.dispose]: letGo,
      };
    },
  };
}

/** What an earlier runner left, oldest use first; what is not whole goes. */
async function present(folder: string, log: (message: string) => void): Promise<Map<string, Entry>> {
  const found: { entry: Entry; used: number }[] = [];
  for (const name of (await readdir(folder)).filter(isDigest)) {
    const one = await presentOne(join(folder, name), name).catch(() => undefined);
    if (one) found.push(one);
    else await sweepTree(join(folder, name), log);
  }
  found.sort((a, b) => a.used - b.used);
  return new Map(found.map(({ entry }) => [entry.digest, entry]));
}

async function presentOne(path: string, digest: string): Promise<{ entry: Entry; used: number }> {
  const tree = join(path, 'tree');
  const bytes = Number(await readFile(join(path, 'size'), 'utf8'));
  const { mtimeMs: used } = await stat(path);
  const done = { leave: new AbortController(), isReady: true, ready: Promise.resolve() };
  return { used, entry: { digest, tree, ...done, users: 0, bytes, places: placesIn(tree) } };
}

function isDigest(name: string): boolean {
  return /^[0-9a-f]{64}$/.test(name);
}

/** Removes what an earlier runner was just making or removing. */
export async function sweepDependencyCache(folder: string, log: (message: string) => void): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) if (!isDigest(name)) await sweepTree(join(folder, name), log);
}

async function sizeOf(tree: string): Promise<number> {
  const { stdout } = await run('du', ['--summarize', '--block-size=1', '--', tree]);
  return Number.parseInt(stdout.toString(), 10) || 0;
}

async function orAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason as Error);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
