import { chownSync, mkdirSync, rmdirSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import { isId } from '../lib/ids.ts';
import { isThere } from '../lib/is-there.ts';
import { orAborted } from '../lib/or-aborted.ts';
import { run } from '../lib/processes.ts';
import { randomName } from '../lib/random-name.ts';
import { removeTree, sweepTree } from '../lib/remove-tree.ts';
import type { CacheLayer, KeptLayer, Link } from '../protocol/index.ts';
import { packedIn, parts, unpackLayer } from './cache-layers.ts';
import { unlessStoreAway } from './retry.ts';
import type { Sandboxes } from './sandbox/types.ts';
import { fetchBlob } from './transfers.ts';

/**
 * The layers of caches that this runner keeps, by project and by the name of the build that made them. A build made what
 * is in them, so the runner itself never looks inside. A layer is complete or missing: it is made under another name and
 * renamed.
 *
 * A layer is only written to disk in a quiet moment. Until then it is worth something in this run of the machine only; a
 * power cut loses nothing, because the server has every layer as a blob.
 */
export interface CacheStore {
  /** The trees of these layers, the lowest first; those that are missing are fetched. They stay until it is disposed of. */
  take(project: string, layers: readonly CacheLayer[], signal: AbortSignal): Promise<TakenLayers>;
  /** Whether all of them are here already. */
  has(project: string, layers: readonly CacheLayer[]): boolean;
  /** A place to make a layer in. */
  begin(): Promise<Making>;
  /** Keeps a layer that was made. */
  place(project: string, layer: CacheLayer, making: Making): Promise<void>;
  /** The layers that were not used for a while, as many as one question may name. */
  idle(): KeptLayer[];
  /** Removes those of the layers that nobody uses at the moment. */
  drop(layers: readonly KeptLayer[]): Promise<void>;
  projects(): string[];
  /** Removes the layers of a project. */
  forget(project: string): Promise<void>;
  /** Removes what was not used for longest while the disk lacks room; writes the rest to disk, unless jobs need the disk. */
  tidy(isBusy: boolean): Promise<void>;
}

export interface TakenLayers extends Disposable {
  trees: string[];
}

/** A layer in the making, with its folder for other files. */
export interface Making extends AsyncDisposable {
  folder: string;
  /** Has a directory for each part of a layer. */
  tree: string;
}

interface Entry extends KeptLayer {
  digest: string;
  ready: Promise<void>;
  isReady: boolean;
  /** Ends the fetch when nobody waits for it any more. */
  leave: AbortController;
  users: number;
  usedAt: number;
  bytes: number;
  isOnDisk: boolean;
}

export interface CacheStoreOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
}

/** A layer that was just saved is not known to the server yet. */
const idleMs = 10 * 60_000;
const mostAsked = 1000;
/** So much of the disk stays free for builds, besides its reserve. */
const roomBytes = 1024 ** 3;

const keyOf = ({ project, name }: KeptLayer): string => `${project}/${name}`;

export async function openCacheStore(options: CacheStoreOptions): Promise<CacheStore> {
  const { folder, link, sandboxes, disk, log } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const entries = new Map<string, Entry>();
  for (const entry of await presentIn(folder, log)) entries.set(keyOf(entry), entry);
  const placeOf = (entry: KeptLayer): string => join(folder, entry.project, entry.name);

  const begin = async (): Promise<Making> => {
    const making = join(folder, `making-${randomName()}`);
    const tree = join(making, 'tree');
    for (const path of [making, tree]) mkdirSync(path, { mode: 0o711 });
    const { uid, gid } = sandboxes.owner;
    const own = parts.map((part) => join(tree, part));
    for (const path of own) {
      mkdirSync(path, { mode: 0o755 });
      if (process.getuid?.() === 0) chownSync(path, uid, gid);
    }
    const remove = async (): Promise<void> => {
      try {
        // Mostly nothing was put there, and this costs no process.
        for (const path of [...own, tree, making]) rmdirSync(path);
      } catch {
        await sweepTree(making, log);
      }
    };
    return { folder: making, tree, [Symbol.asyncDispose]: remove };
  };

  /** The layer gets its name only when it is complete. */
  const finish = async (entry: Entry, { folder: making, tree }: Making): Promise<void> => {
    const whole = join(making, 'layer');
    await mkdir(whole, { mode: 0o711 });
    for (const part of parts) await rename(join(tree, part), join(whole, part));
    await writeFile(join(whole, 'about'), JSON.stringify({ digest: entry.digest, bytes: entry.bytes }));
    await writeFile(join(whole, 'boot'), await bootOf());
    await mkdir(join(folder, entry.project), { recursive: true, mode: 0o711 });
    await rename(whole, placeOf(entry));
    entry.isReady = true;
  };

  const bring = async (entry: Entry, below: readonly string[]): Promise<void> => {
    await using making = await begin();
    const { signal } = entry.leave;
    const packed = join(making.folder, 'packed');
    await mkdir(packed, { mode: 0o755 });
    // A build can do without it, and does not wait for a store that is away.
    await fetchBlob(link, entry.digest, packedIn(packed), signal, unlessStoreAway);
    const packing = { id: `unpack-${randomName()}`, sandboxes, signal };
    await unpackLayer(packing, { folder: packed, below, tree: making.tree });
    await finish(entry, making);
  };

  const hold = async (layer: CacheLayer & KeptLayer, below: readonly string[], signal: AbortSignal): Promise<Entry> => {
    let entry = entries.get(keyOf(layer));
    if (!entry || entry.leave.signal.aborted || entry.digest !== layer.digest) {
      const fresh = entryOf(layer, false);
      fresh.ready = bring(fresh, below);
      fresh.ready.catch(() => {
        if (entries.get(keyOf(fresh)) === fresh) entries.delete(keyOf(fresh)); // who waits for it gets the error
      });
      entries.set(keyOf(layer), fresh);
      entry = fresh;
    }
    entry.users += 1;
    try {
      await orAborted(entry.ready, signal);
    } catch (error) {
      release(entry);
      throw error;
    }
    entry.usedAt = Date.now();
    void utimes(placeOf(entry), new Date(), new Date()).catch(() => {});
    return entry;
  };
  const release = (entry: Entry): void => {
    entry.users -= 1;
    if (entry.users === 0 && !entry.isReady) entry.leave.abort(new Error('nobody waits for this cache any more'));
  };

  const remove = async (entry: Entry): Promise<void> => {
    if (entry.users > 0 || !entry.isReady) return;
    entries.delete(keyOf(entry));
    const leaving = join(folder, `leaving-${randomName()}`);
    await rename(placeOf(entry), leaving);
    await removeTree(leaving);
  };

  /** One after the other: some may lie on the same disk as what is measured. */
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
      await rm(join(placeOf(entry), 'boot'), { force: true }).catch(() => {}); // removed meanwhile
    }
  };

  return {
    async take(project, layers, signal) {
      const held: Entry[] = [];
      const letGo = (): void => held.splice(0).forEach(release);
      try {
        for (const layer of layers)
          held.push(
            await hold(
              { ...layer, project },
              held.map((one) => placeOf(one)),
              signal,
            ),
          );
      } catch (error) {
        letGo();
        throw error;
      }
      return { trees: held.map((one) => placeOf(one)), [Symbol.dispose]: letGo };
    },
    has: (project, layers) =>
      layers.every(({ name, digest }) => {
        const entry = entries.get(keyOf({ project, name }));
        return entry?.isReady === true && entry.digest === digest;
      }),
    begin,
    async place(project, layer, making) {
      const entry = entryOf({ ...layer, project }, false);
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
        .slice(0, mostAsked)
        .map(({ project, name }) => ({ project, name }));
    },
    async drop(layers) {
      for (const layer of layers) {
        const entry = entries.get(keyOf(layer));
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

function entryOf({ project, name, digest, bytes }: CacheLayer & KeptLayer, isReady: boolean): Entry {
  const leave = new AbortController();
  const state = { ready: Promise.resolve(), isReady, leave, users: 0, usedAt: Date.now(), isOnDisk: false };
  return { project, name, digest, bytes, ...state };
}

/** The layers of an earlier runner. What it was making or removing goes, and what a power cut may have spoiled. */
async function presentIn(folder: string, log: (message: string) => void): Promise<Entry[]> {
  const found: Entry[] = [];
  const boot = await bootOf();
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

async function presentOne(folder: string, layer: KeptLayer, boot: string): Promise<Entry | undefined> {
  const place = join(folder, layer.project, layer.name);
  const made = await readFile(join(place, 'boot'), 'utf8').catch(() => undefined);
  if (made !== undefined && made !== boot) return undefined;
  for (const part of parts) if (!(await isThere(join(place, part), 'directory'))) return undefined;
  const { digest, bytes } = JSON.parse(await readFile(join(place, 'about'), 'utf8')) as CacheLayer;
  const { mtimeMs: usedAt } = await stat(place);
  return { ...entryOf({ ...layer, digest, bytes }, true), usedAt, isOnDisk: made === undefined };
}

async function bootOf(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

/** Removes what an earlier runner was making or removing. */
export async function sweepCaches(folder: string, log: (message: string) => void): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) if (!isId(name)) await sweepTree(join(folder, name), log);
}
