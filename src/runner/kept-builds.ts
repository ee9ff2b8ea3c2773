import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import { randomName } from '../lib/random-name.ts';
import { removeTree, sweepTree } from '../lib/remove-tree.ts';
import { treeSize } from '../lib/tree-size.ts';
import type { CacheTree, KeptFiles, SuiteOrder } from '../protocol/index.ts';
import type { RunFiles } from './sandbox/types.ts';

/**
 * The files of failed builds, kept for shells. A build's directories are moved here as they are, by one rename, when none of
 * its processes lives any more; the runner itself never looks inside. What a shell has to know about the build (its
 * variables above all) is written beside them, encrypted with a key that only the server has: when the server forgets it,
 * nobody can read it any more.
 *
 * They go when their time is over, when there are too many of them or too little room, and with their project. Room is made
 * by the account that has the most, which gives its oldest: so no account takes it from the others. What a killed runner was
 * keeping or removing, and what was kept before the machine was restarted (it may not have reached the disk), goes when the
 * next one starts.
 */
export interface KeptBuilds {
  /** The name of this folder, which no other runner knows. */
  readonly location: string;
  keep(left: RunFiles, build: BuildFacts, how: NonNullable<SuiteOrder['keep']>): Promise<KeptFiles>;
  /** Undefined when they are gone. They stay until this is disposed of. */
  open(name: string, key: string): Promise<OpenedBuild | undefined>;
  isEmpty(): boolean;
  /** Settles when something is kept. */
  filled(): Promise<void>;
  projects(): string[];
  forget(project: string): Promise<void>;
  /** Removes what has to go. */
  tidy(now?: number): Promise<void>;
}

/** What a shell has to know about its build. */
export interface BuildFacts {
  order: SuiteOrder;
  /** The very image that it ran in. */
  imageDigest?: string | undefined;
  /** The cache that it began with. */
  cache?: CacheTree | undefined;
}

export interface OpenedBuild extends Disposable, BuildFacts {
  /** The directory that `keepWhole` made. */
  files: string;
}

export interface KeptBuildsOptions {
  folder: string;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
  /** The most builds. */
  mostBuilds?: number;
}

interface Entry {
  name: string;
  account: string;
  project: string;
  keptAt: number;
  expiresAt: number;
  bytes: number;
  users: number;
}

interface About extends Pick<Entry, 'account' | 'project' | 'keptAt' | 'expiresAt'> {
  boot: string;
}

type Measure = (entry: Entry) => number;
const inBuilds: Measure = () => 1;
const inBytes: Measure = ({ bytes }) => bytes;

const usualMost = 24;
/** So much of the disk stays free for builds, besides its reserve; and such a part of it at most is kept. */
const roomBytes = 1024 ** 3;
const mostOfDisk = 1 / 5;
const hour = 60 * 60 * 1000;
const isName = (name: string): boolean => /^[\w-]{16,64}$/.test(name);
const makingPrefix = 'making.';
const leavingPrefix = 'leaving.';

export async function openKeptBuilds({
  folder,
  disk,
  log,
  mostBuilds = usualMost,
}: KeptBuildsOptions): Promise<KeptBuilds> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const location = await locationOf(folder);
  const boot = await bootOf();
  const entries = new Map<string, Entry>();
  let filled = Promise.withResolvers<void>();
  /** Nobody waits for its size: a build may have left millions of files. */
  const add = (entry: Entry): void => {
    entries.set(entry.name, entry);
    treeSize(join(folder, entry.name)).then(
      (bytes) => (entry.bytes = bytes),
      () => {}, // it is gone
    );
    filled.resolve();
    filled = Promise.withResolvers<void>();
  };
  for (const name of await readdir(folder)) {
    if (name === locationFile) continue;
    const about = isName(name) ? await aboutIn(join(folder, name)).catch(() => undefined) : undefined;
    if (about?.boot === boot) add({ ...about, name, users: 0, bytes: 0 });
    else await sweepTree(join(folder, name), log);
  }

  const remove = async (entry: Entry): Promise<void> => {
    if (entry.users > 0 || !entries.delete(entry.name)) return;
    const leaving = join(folder, `${leavingPrefix}${entry.name}`);
    await rename(join(folder, entry.name), leaving);
    await removeTree(leaving);
  };
  const oldest = (): Entry[] => Array.from(entries.values()).toSorted((a, b) => a.keptAt - b.keptAt);
  const sumOf = (some: readonly Entry[], measure: Measure): number => some.reduce((sum, one) => sum + measure(one), 0);
  /** What there is too much of. */
  const excess = async (): Promise<Measure | undefined> => {
    if (entries.size > mostBuilds) return inBuilds;
    const { blocks, bsize } = await statfs(folder);
    const isTooMuch = sumOf(oldest(), inBytes) > blocks * bsize * mostOfDisk || (await disk.room()) < roomBytes;
    return isTooMuch ? inBytes : undefined;
  };
  /** The oldest of the account that has the most, which nobody uses. */
  const firstToGo = (measure: Measure): Entry | undefined => {
    const accounts = Array.from(Map.groupBy(oldest(), ({ account }) => account).values());
    const unused = accounts.map((all) => ({ all, next: all.find(({ users }) => users === 0) }));
    return unused.filter(({ next }) => next).toSorted((a, b) => sumOf(b.all, measure) - sumOf(a.all, measure))[0]?.next;
  };

  return {
    location,

    async keep(left, build, { hours, accountId: account }) {
      const name = randomName();
      const key = randomBytes(32);
      const now = Date.now();
      const facts = { account, project: build.order.source.projectId, keptAt: now, expiresAt: now + hours * hour };
      const making = join(folder, `${makingPrefix}${name}`);
      try {
        await mkdir(making, { mode: 0o711 });
        await writeFile(join(making, 'about'), JSON.stringify({ ...facts, boot } satisfies About), { mode: 0o600 });
        await writeFile(join(making, 'sealed'), sealed(key, JSON.stringify(build)), { mode: 0o600 });
        await left.keepWhole(join(making, 'files'));
        await rename(making, join(folder, name));
      } catch (error) {
        await sweepTree(making, log);
        throw error;
      }
      add({ ...facts, name, users: 0, bytes: 0 });
      return { location, name, key: key.toString('hex') };
    },

    async open(name, key) {
      const entry = entries.get(name);
      if (!entry || entry.expiresAt <= Date.now()) return undefined;
      entry.users += 1;
      let isHeld = true;
      const release = (): void => {
        if (isHeld) entry.users -= 1;
        isHeld = false;
      };
      try {
        const place = join(folder, name);
        const text = opened(Buffer.from(key, 'hex'), await readFile(join(place, 'sealed')));
        return { ...(JSON.parse(text) as BuildFacts), files: join(place, 'files'), [Symbol.dispose]: release };
      } catch (error) {
        release();
        throw error;
      }
    },

    isEmpty: () => entries.size === 0,
    filled: () => filled.promise,
    projects: () => [...new Set(Array.from(entries.values(), ({ project }) => project))],
    async forget(project) {
      for (const entry of oldest()) if (entry.project === project) await remove(entry);
    },
    async tidy(now = Date.now()) {
      for (const entry of oldest()) if (entry.expiresAt <= now) await remove(entry);
      for (let measure = await excess(); measure; measure = await excess()) {
        const entry = firstToGo(measure);
        if (!entry) return;
        await remove(entry);
      }
    },
  };
}

const locationFile = 'location';

async function locationOf(folder: string): Promise<string> {
  const file = join(folder, locationFile);
  const known = await readFile(file, 'utf8').catch(() => '');
  if (isName(known)) return known;
  const fresh = randomName();
  await writeFile(`${file}.new`, fresh, { mode: 0o600 });
  await rename(`${file}.new`, file);
  return fresh;
}

async function aboutIn(place: string): Promise<About> {
  return JSON.parse(await readFile(join(place, 'about'), 'utf8')) as About;
}

async function bootOf(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

const [ivLength, tagLength] = [12, 16];

function sealed(key: Buffer, text: string): Buffer {
  const iv = randomBytes(ivLength);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), body]);
}

function opened(key: Buffer, bytes: Buffer): string {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivLength), { authTagLength: tagLength });
  decipher.setAuthTag(bytes.subarray(ivLength, ivLength + tagLength));
  return Buffer.concat([decipher.update(bytes.subarray(ivLength + tagLength)), decipher.final()]).toString('utf8');
}

/** Removes what an earlier runner was keeping or removing. */
export async function sweepKeptBuilds(folder: string, log: (message: string) => void): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names)
    if (name.startsWith(makingPrefix) || name.startsWith(leavingPrefix)) await sweepTree(join(folder, name), log);
}
