import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { most } from '../shared/domain/bounds.ts';
import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import { lastingName } from '../shared/lib/lasting-name.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { removeTree, sweepTree } from '../shared/lib/remove-tree.ts';
import { treeSize } from '../shared/lib/tree-size.ts';
import type { CacheTree, KeepOrder, KeptFiles, ServiceData, SuiteOrder } from '../shared/protocol/index.ts';
import type { CacheStore } from './cache-store.ts';
import { currentBoot } from './current-boot.ts';
import { wholeRun, type RunFiles } from './sandbox/types.ts';

/**
 * The files of failed builds, for shells, and of builds that other suites begin with. One rename moves them here after
 * all processes of the build are dead. The runner never reads inside. The build's facts, including its variables, are
 * encrypted with a key that only the server has.
 *
 * Files are removed when they expire, with their project, or if there are too many: the account with the most loses its
 * oldest first. Files for other suites stay until the server no longer needs them. A starting runner removes incomplete
 * files, and all from before a restart of the machine, because they may not have reached the disk.
 */
export interface KeptBuilds {
  /** A name of this folder that no other runner knows. */
  readonly location: string;
  keep(left: RunFiles, build: BuildFacts, how: KeepOrder): Promise<KeptFiles>;
  /** Undefined if the files are gone. They stay until the result is disposed of. */
  open(name: string, key: string): Promise<OpenedBuild | undefined>;
  /** Files that other suites begin with, at most as many as one call may name. The server may not know new ones. */
  forSuites(): { name: string; isNew: boolean }[];
  /** Applies the server's answer for these names. */
  update(names: readonly string[], answer: { gone: readonly string[]; needed: readonly string[] }): Promise<void>;
  isEmpty(): boolean;
  filled(): Promise<void>;
  projects(): string[];
  forget(project: string): Promise<void>;
  tidy(now?: number): Promise<void>;
}

export interface BuildFacts {
  order: SuiteOrder;
  imageDigest?: string | undefined;
  serviceImages?: Record<string, string> | undefined;
  serviceData?: Record<string, Pick<ServiceData, 'name' | 'digest'>> | undefined;
  /** The cache that the build began with. */
  cache?: CacheTree | undefined;
  /** Whether all that it wrote belongs to whoever ran it. Only root can give files to others. */
  hasOneOwner?: boolean;
}

export interface OpenedBuild extends Disposable, BuildFacts {
  files: string;
}

export interface KeptBuildsOptions {
  folder: string;
  /** The trees that builds began with, which must stay as long as their files. */
  caches: Pick<CacheStore, 'hold'>;
  trees: Pick<CacheStore, 'hold'>;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
  /** The limit on builds that are kept only for shells. */
  mostBuilds?: number;
}

interface About {
  account: string;
  project: string;
  keptAt: number;
  expiresAt: number;
  boot: string;
  forSuites: boolean;
  /** Its files are mounted over the tree of a cache, and over another build's files, kept here or unpacked. */
  cache?: CacheTree | undefined;
  over?: string | undefined;
  tree?: CacheTree | undefined;
}

interface Entry extends About {
  name: string;
  bytes: number;
  users: number;
  /** Whether the server may still assign jobs that begin with it. */
  isNeeded: boolean;
  held: DisposableStack;
}

type Measure = (entry: Entry) => number;
const inBuilds: Measure = () => 1;
const inBytes: Measure = ({ bytes }) => bytes;

const usualMost = 24;
/** Free disk space for builds in addition to the disk's reserve, and the largest part of the disk for kept files. */
const roomBytes = 1024 ** 3;
const mostOfDisk = 1 / 5;
const hour = 60 * 60 * 1000;
/** The server learns of new files when the build ends, which may be later. */
const newMs = 10 * 60_000;
const isName = (name: string): boolean => /^[\w-]{16,64}$/.test(name);

export async function openKeptBuilds({
  folder,
  caches,
  trees,
  disk,
  log,
  mostBuilds = usualMost,
}: KeptBuildsOptions): Promise<KeptBuilds> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const location = await lastingName(join(folder, locationFile));
  const boot = await currentBoot();
  const entries = new Map<string, Entry>();
  let filled = Promise.withResolvers<void>();
  /** Keeps what the build's files are mounted over; undefined if it is gone. */
  const hold = ({ project, cache, over, tree }: About): DisposableStack | undefined => {
    using holding = new DisposableStack();
    const below = over === undefined ? undefined : entries.get(over);
    if (below) {
      below.users += 1;
      holding.defer(() => void (below.users -= 1));
    }
    const parts = [cache && caches.hold(project, cache), tree && trees.hold(project, tree)];
    for (const part of parts) if (part) holding.use(part);
    const isComplete = (!cache || parts[0]) && (!tree || parts[1]) && (over === undefined || below);
    return isComplete ? holding.move() : undefined;
  };
  /** The size is measured in the background, because a build may leave millions of files. */
  const add = (name: string, about: About, held: DisposableStack): void => {
    const entry: Entry = { ...about, name, users: 0, bytes: 0, isNeeded: about.forSuites, held };
    entries.set(name, entry);
    treeSize(join(folder, entry.name)).then(
      (bytes) => (entry.bytes = bytes),
      () => {}, // it is gone
    );
    filled.resolve();
    filled = Promise.withResolvers<void>();
  };
  // The oldest first, because others may be mounted over it.
  for (const { name, about } of await presentIn(folder)) {
    const held = about?.boot === boot ? hold(about) : undefined;
    if (about && held) add(name, about, held);
    else await sweepTree(join(folder, name), log);
  }

  const remove = async (entry: Entry): Promise<void> => {
    if (entry.users > 0 || !entries.delete(entry.name)) return;
    const leaving = join(folder, `leaving.${entry.name}`);
    await rename(join(folder, entry.name), leaving);
    await removeTree(leaving);
    entry.held.dispose();
  };
  const oldest = (): Entry[] => Array.from(entries.values()).toSorted((a, b) => a.keptAt - b.keptAt);
  const sumOf = (some: readonly Entry[], measure: Measure): number => some.reduce((sum, one) => sum + measure(one), 0);
  const excess = async (): Promise<Measure | undefined> => {
    if (oldest().filter(({ forSuites }) => !forSuites).length > mostBuilds) return inBuilds;
    const { blocks, bsize } = await statfs(folder);
    const isTooMuch = sumOf(oldest(), inBytes) > blocks * bsize * mostOfDisk || (await disk.room()) < roomBytes;
    return isTooMuch ? inBytes : undefined;
  };
  const firstToGo = (measure: Measure): Entry | undefined => {
    const some = measure === inBuilds ? oldest().filter(({ forSuites }) => !forSuites) : oldest();
    const accounts = Array.from(Map.groupBy(some, ({ account }) => account).values());
    const unused = accounts.map((all) => ({ all, next: all.find(({ users, isNeeded }) => users === 0 && !isNeeded) }));
    return unused.filter(({ next }) => next).toSorted((a, b) => sumOf(b.all, measure) - sumOf(a.all, measure))[0]?.next;
  };

  return {
    location,

    async keep(left, build, { hours, accountId: account, forSuites }) {
      const name = randomName();
      const key = randomBytes(32);
      const now = Date.now();
      const { source, files } = build.order;
      const about: About = {
        account,
        project: source.projectId,
        keptAt: now,
        expiresAt: now + hours * hour,
        boot,
        forSuites: forSuites !== undefined,
        cache: build.cache,
        ...(files?.kept && entries.has(files.kept.name) ? { over: files.kept.name } : { tree: files?.packed }),
      };
      const held = hold(about);
      if (!held) throw new Error('what the build began with is gone');
      const making = join(folder, `making.${name}`);
      try {
        await mkdir(making, { mode: 0o711 });
        await writeFile(join(making, 'about'), JSON.stringify(about), { mode: 0o600 });
        await writeFile(join(making, 'sealed'), sealed(key, JSON.stringify(build)), { mode: 0o600 });
        await left.keepWhole(join(making, 'files'));
        await rename(making, join(folder, name));
      } catch (error) {
        held.dispose();
        await sweepTree(making, log);
        throw error;
      }
      add(name, about, held);
      // Only a shell would need these.
      if (hours === 0)
        for (const part of [wholeRun.tmp, wholeRun.image, wholeRun.root])
          removeTree(join(folder, name, 'files', part)).catch(() => {}); // they are removed with the others
      return { location, name, key: key.toString('hex') };
    },

    async open(name, key) {
      const entry = entries.get(name);
      if (!entry || (!entry.forSuites && entry.expiresAt <= Date.now())) return undefined;
      entry.users += 1;
      let isHeld = true;
      const release = (): void => {
        if (isHeld) entry.users -= 1;
        isHeld = false;
      };
      try {
        const directory = join(folder, name);
        const text = opened(Buffer.from(key, 'hex'), await readFile(join(directory, 'sealed')));
        return { ...(JSON.parse(text) as BuildFacts), files: join(directory, 'files'), [Symbol.dispose]: release };
      } catch (error) {
        release();
        throw error;
      }
    },

    forSuites: () =>
      oldest()
        .filter((entry) => entry.forSuites)
        .slice(0, most.askedAbout)
        .map(({ name, keptAt }) => ({ name, isNew: keptAt > Date.now() - newMs })),
    async update(names, { gone, needed }) {
      for (const entry of names.map((name) => entries.get(name))) {
        if (!entry) continue;
        entry.isNeeded = needed.includes(entry.name);
        if (gone.includes(entry.name)) await remove(entry);
      }
    },
    isEmpty: () => entries.size === 0,
    filled: () => filled.promise,
    projects: () => [...new Set(Array.from(entries.values(), ({ project }) => project))],
    async forget(project) {
      for (const entry of oldest()) if (entry.project === project) await remove(entry);
    },
    async tidy(now = Date.now()) {
      for (const entry of oldest()) if (!entry.forSuites && entry.expiresAt <= now) await remove(entry);
      for (let measure = await excess(); measure; measure = await excess()) {
        const entry = firstToGo(measure);
        if (!entry) return;
        await remove(entry);
      }
    },
  };
}

const locationFile = 'location';

/** The files of an earlier runner, oldest first. Without `about` they are incomplete. */
async function presentIn(folder: string): Promise<{ name: string; about: About | undefined }[]> {
  const names = (await readdir(folder)).filter((name) => name !== locationFile);
  const found = names.map(async (name) => {
    const text = isName(name) ? await readFile(join(folder, name, 'about'), 'utf8').catch(() => '') : '';
    return { name, about: text === '' ? undefined : (JSON.parse(text) as About) };
  });
  return (await Promise.all(found)).toSorted((a, b) => (a.about?.keptAt ?? 0) - (b.about?.keptAt ?? 0));
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
