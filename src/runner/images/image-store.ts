import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { orAborted } from '../../shared/lib/or-aborted.ts';
import { removeTree, sweepTree } from '../../shared/lib/remove-tree.ts';
import type { ImageConfiguration } from './configuration.ts';

/**
 * Unpacked images by registry and digest: a hostile registry could otherwise hand out other registries' images.
 * `accounts` has each image's users and references. An image has its final name only when it is complete.
 */
export interface ImageStore {
  readonly folder: string;
  /** `bring` makes the image if it is not here. It stays until the result is disposed of. */
  hold(wanted: Wanted, signal: AbortSignal): Promise<HeldImage>;
  holdIfHere(host: string, digest: string): HeldImage | undefined;
  /** The digest that this account last had under a reference, if that image is still here. */
  lastOf(account: string, reference: string): string | undefined;
  noteLast(account: string, reference: string, image: HeldImage): Promise<void>;
  forgetLast(account: string, reference: string): Promise<void>;
  /** Removes unused images, least recently used first, until there is room or none is left. */
  makeRoom(isEnough: () => Promise<boolean>): Promise<void>;
  /** Other files of a held image, by name. If they are missing, `make` makes them and returns their size. */
  other(image: HeldImage, name: string, make: (into: string) => Promise<number>): Promise<string>;
}

export interface Wanted {
  host: string;
  digest: string;
  /** Simultaneous requests share one fetch only within an account. */
  account: string;
  bring: (making: string, signal: AbortSignal) => Promise<Brought>;
}

export interface Brought {
  bytes: number;
  configuration: ImageConfiguration;
}

export interface HeldImage extends Disposable, Brought {
  digest: string;
  tree: string;
  folder: string;
}

interface About extends Brought {
  host: string;
  digest: string;
}

interface Entry extends About {
  users: number;
}

interface Flight {
  work: Promise<void>;
  aborting: AbortController;
  waiting: number;
}

const hash = (...parts: string[]): string => createHash('sha256').update(parts.join('\n')).digest('hex');
const isName = (name: string): boolean => /^[0-9a-f]{64}$/.test(name);

export async function openImageStore(
  folder: string,
  mostBytes: number,
  log: (message: string) => void,
): Promise<ImageStore> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  await sweepImages(folder, log);
  /** Ordered by last use. */
  const entries = new Map<string, Entry>();
  const last = new Map<string, string>();
  for (const { name, about, notes } of await present(folder, log)) {
    entries.set(name, { ...about, users: 0 });
    for (const note of notes) last.set(note, name);
  }
  const flights = new Map<string, Flight>();
  const others = new Map<string, Promise<void>>();
  const place = (name: string): string => join(folder, name);

  const bring = async ({ host, digest, bring: make }: Wanted, name: string, signal: AbortSignal): Promise<void> => {
    const making = place(`making-${randomUUID()}`);
    try {
      await mkdir(making, { mode: 0o711 });
      await mkdir(join(making, 'accounts'), { mode: 0o700 });
      const about: About = { host, digest, ...(await make(making, signal)) };
      await writeFile(join(making, 'about'), JSON.stringify(about), { mode: 0o600 });
      if (entries.has(name)) return; // another account brought the same meanwhile
      await rename(making, place(name));
      entries.set(name, { ...about, users: 0 });
    } finally {
      await sweepTree(making, log);
    }
  };

  const fly = async (wanted: Wanted, name: string, signal: AbortSignal): Promise<void> => {
    const flightName = `${name} ${wanted.account}`;
    let flight = flights.get(flightName);
    if (!flight) {
      const aborting = new AbortController();
      const work = bring(wanted, name, aborting.signal).finally(() => flights.delete(flightName));
      work.catch(() => {}); // those who wait get the error
      flight = { work, aborting, waiting: 0 };
      flights.set(flightName, flight);
    }
    flight.waiting += 1;
    try {
      await orAborted(flight.work, signal);
    } finally {
      flight.waiting -= 1;
      if (flight.waiting === 0) {
        flight.aborting.abort(new Error('nobody waits for the image any more'));
        if (flights.get(flightName) === flight) flights.delete(flightName);
        await flight.work.catch(() => {}); // what it made is removed
      }
    }
  };

  const remove = async (name: string): Promise<void> => {
    entries.delete(name);
    for (const [note, of] of last) if (of === name) last.delete(note);
    const leaving = place(`leaving-${randomUUID()}`);
    await rename(place(name), leaving);
    await removeTree(leaving);
  };
  const makeRoom = async (isEnough: () => Promise<boolean>): Promise<void> => {
    for (const [name, { users }] of entries) {
      if (users > 0) continue;
      if (await isEnough()) return;
      if (entries.get(name)?.users === 0) await remove(name);
    }
  };
  const isWithinBounds = async (): Promise<boolean> => {
    let bytes = 0;
    for (const one of entries.values()) bytes += one.bytes;
    return bytes <= mostBytes;
  };
  let tidying: Promise<void> | undefined;
  const release = (entry: Entry): void => {
    entry.users -= 1;
    tidying ??= makeRoom(isWithinBounds)
      .catch(() => {}) // the next release tries again
      .finally(() => (tidying = undefined));
  };

  const occupy = (name: string): HeldImage | undefined => {
    const entry = entries.get(name);
    if (!entry) return undefined;
    entries.delete(name);
    entries.set(name, entry);
    entry.users += 1;
    void utimes(place(name), new Date(), new Date()).catch(() => {});
    const { digest, bytes, configuration } = entry;
    const held = { digest, bytes, configuration, folder: place(name), tree: treeOf(place(name)) };
    let isHeld = true;
    const letGo = (): void => {
      if (isHeld) release(entry);
      isHeld = false;
    };
    return { ...held, [Symbol.dispose]: letGo };
  };

  const makeOther = async (image: HeldImage, path: string, make: (into: string) => Promise<number>): Promise<void> => {
    if (await pathExists(path, 'directory')) return;
    using _held = occupy(basename(image.folder)); // whoever asked may not wait for it
    const making = `${path}.making`;
    await removeTree(making); // of a runner that was killed
    await mkdir(making, { mode: 0o755 });
    try {
      const bytes = await make(making);
      const entry = entries.get(basename(image.folder));
      if (entry) {
        entry.bytes += bytes;
        const { users: _, ...about } = entry;
        await writeFile(join(image.folder, 'about'), JSON.stringify(about), { mode: 0o600 });
      }
      await rename(making, path);
    } finally {
      await sweepTree(making, log);
    }
  };

  return {
    folder,
    async other(image, name, make) {
      const path = join(image.folder, name);
      const known = others.get(path) ?? makeOther(image, path, make).finally(() => others.delete(path));
      others.set(path, known);
      await known;
      return path;
    },
    async hold(wanted, signal) {
      const name = hash(wanted.host, wanted.digest);
      for (;;) {
        const held = occupy(name);
        if (held) return held;
        await fly(wanted, name, signal);
      }
    },
    holdIfHere: (host, digest) => occupy(hash(host, digest)),
    lastOf: (account, reference) => entries.get(last.get(hash(account, reference)) ?? '')?.digest,
    async noteLast(account, reference, { folder: of, digest }) {
      const note = hash(account, reference);
      const name = of.slice(folder.length + 1);
      const before = last.get(note);
      if (before === name) return;
      last.set(note, name);
      await writeFile(join(of, 'accounts', note), digest, { mode: 0o600 });
      if (before !== undefined) await rm(join(place(before), 'accounts', note), { force: true });
    },
    async forgetLast(account, reference) {
      const note = hash(account, reference);
      const before = last.get(note);
      last.delete(note);
      if (before !== undefined) await rm(join(place(before), 'accounts', note), { force: true });
    },
    makeRoom,
  };
}

export const treeOf = (folder: string): string => join(folder, 'tree');

export async function sweepImages(folder: string, log: (message: string) => void): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) if (!isName(name)) await sweepTree(join(folder, name), log);
}

/** Least recently used first; incomplete images are removed. */
async function present(
  folder: string,
  log: (message: string) => void,
): Promise<{ name: string; about: About; notes: string[] }[]> {
  const found: { name: string; about: About; notes: string[]; used: number }[] = [];
  for (const name of (await readdir(folder)).filter(isName)) {
    try {
      const about = JSON.parse(await readFile(join(folder, name, 'about'), 'utf8')) as About;
      const notes = await readdir(join(folder, name, 'accounts'));
      if (!(await pathExists(treeOf(join(folder, name)), 'directory'))) throw new Error('its files are no directory');
      const { mtimeMs: used } = await stat(join(folder, name));
      found.push({ name, about, notes, used });
    } catch {
      await sweepTree(join(folder, name), log);
    }
  }
  return found.toSorted((a, b) => a.used - b.used);
}
