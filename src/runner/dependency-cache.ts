import { mkdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { orAborted } from '../shared/lib/or-aborted.ts';
import type { Link, Software } from '../shared/protocol/index.ts';
import type { Mount, Sandboxes } from './sandbox/types.ts';
import { bring, discard, present, type Unpacked } from './unpacked-software.ts';

/** Compiled dependencies, unpacked once and shared read-only. The least recently used are removed for room. */
export interface DependencyCache {
  take(software: readonly Software[], signal: AbortSignal): Promise<Taken>;
}

/** The dependencies stay until this is disposed of. */
export interface Taken extends Disposable {
  mounts: Mount[];
  /** The directories below a prefix for search paths. */
  directoriesAt: (prefix: string) => string[];
}

export interface DependencyCacheOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  /** The limit on all unused dependencies. */
  mostBytes: number;
  log: (message: string) => void;
}

interface Entry {
  digest: string;
  ready: Promise<Unpacked>;
  unpacked: Unpacked | undefined;
  /** Ends the fetch when no user waits for it. */
  aborting: AbortController;
  users: number;
}

export async function openDependencyCache(options: DependencyCacheOptions): Promise<DependencyCache> {
  const { folder, mostBytes, log } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const entries = new Map(
    (await present(folder, log)).map(([digest, unpacked]) => [digest, entryOf(digest, unpacked)]),
  );

  const begin = (digest: string): Entry => {
    const aborting = new AbortController();
    const bringing = bring(options, digest, aborting.signal);
    const entry: Entry = { digest, aborting, users: 0, unpacked: undefined, ready: bringing };
    bringing.then(
      (unpacked) => (entry.unpacked = unpacked),
      () => {
        // The waiting users get the error. Another user may have begun again since.
        if (entries.get(digest) === entry) entries.delete(digest);
      },
    );
    return entry;
  };

  const makeRoom = async (): Promise<void> => {
    let bytes = 0;
    for (const { unpacked } of entries.values()) bytes += unpacked?.bytes ?? 0;
    for (const [digest, { users, unpacked }] of entries) {
      if (bytes <= mostBytes) return;
      if (users > 0 || !unpacked) continue;
      entries.delete(digest);
      bytes -= unpacked.bytes;
      await discard(folder, digest);
    }
  };
  let tidying: Promise<void> | undefined;
  const release = (entry: Entry): void => {
    entry.users -= 1;
    if (entry.users === 0 && !entry.unpacked) entry.aborting.abort();
    tidying ??= makeRoom()
      .catch(() => {}) // the next release tries again
      .finally(() => (tidying = undefined));
  };

  const hold = async (digest: string, signal: AbortSignal): Promise<Held> => {
    const known = entries.get(digest);
    const entry = known && !known.aborting.signal.aborted ? known : begin(digest);
    entries.delete(digest); // used last, removed last
    entries.set(digest, entry);
    entry.users += 1;
    try {
      const unpacked = await orAborted(entry.ready, signal);
      if (known) void utimes(join(folder, digest), new Date(), new Date()).catch(() => {});
      return { digest, unpacked, release: () => release(entry) };
    } catch (error) {
      release(entry);
      throw error;
    }
  };

  return {
    async take(software, signal) {
      const digests = [...new Set(software.map(({ digest }) => digest))];
      const results = await Promise.allSettled(digests.map((digest) => hold(digest, signal)));
      const held = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      const letGo = (): void => held.forEach((one) => one.release());
      const failed = results.find((result) => result.status === 'rejected');
      if (failed) {
        letGo();
        throw failed.reason;
      }
      const pieces = new Map(held.map(({ digest, unpacked }) => [digest, unpacked]));
      const at = Map.groupBy(software, ({ prefix }) => prefix);
      return {
        mounts: Array.from(at, ([prefix, all]) => ({
          at: prefix,
          layers: all.flatMap(({ digest }) => pieces.get(digest)?.tree ?? []),
        })),
        directoriesAt: (prefix) =>
          (at.get(prefix) ?? []).flatMap(({ digest }) => pieces.get(digest)?.directories ?? []),
        [Symbol.dispose]: letGo,
      };
    },
  };
}

interface Held {
  digest: string;
  unpacked: Unpacked;
  release(): void;
}

function entryOf(digest: string, unpacked: Unpacked): Entry {
  return { digest, unpacked, ready: Promise.resolve(unpacked), aborting: new AbortController(), users: 0 };
}
