import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readFile, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { most } from '../shared/domain/bounds.ts';
import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import { lastingName } from '../shared/lib/lasting-name.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { removeTree } from '../shared/lib/remove-tree.ts';
import { treeSize } from '../shared/lib/tree-size.ts';
import type { CacheTree, KeepOrder, KeptFiles, ServiceData, SuiteOrder } from '../shared/protocol/index.ts';
import type { CacheStore } from './cache-store.ts';
import { wholeRun, type RunFiles } from './sandbox/types.ts';
import { openTreeStore, type Tree, type TreeStore } from './tree-store.ts';

/**
 * The files of failed builds, for shells, and of builds that other suites begin with. One rename moves them here after
 * all processes of the build have ended. The runner never reads inside. The build's facts, including its variables, are
 * encrypted with a key that only the server has.
 *
 * Files are removed when they expire, with their project, or if there are too many. Then the account with the most
 * builds or bytes loses its oldest first. Files for other suites stay until the server no longer needs them. No files
 * are flushed, so none outlive a restart of the machine.
 */
export interface KeptBuilds extends Pick<TreeStore<KeptFacts>, 'projects' | 'forget'> {
  /** A unique name of this folder. */
  readonly location: string;
  retain(left: RunFiles, build: BuildFacts, how: KeepOrder): Promise<KeptFiles>;
  /**
   * Undefined if the files were removed, or have expired. Those below another build's have not, while that one has not.
   * The files stay until the result is disposed of.
   */
  open(name: string, key: string, how?: 'below'): Promise<OpenedBuild | undefined>;
  /** Files for other suites, at most as many as one call may name. The server may not know the new ones yet. */
  forSuites(): { name: string; isNew: boolean }[];
  /** Applies the server's response about these names. */
  update(names: readonly string[], answer: { gone: readonly string[]; needed: readonly string[] }): Promise<void>;
  isEmpty(): boolean;
  filled(): Promise<void>;
  tidy(now?: number): Promise<void>;
}

export interface BuildFacts {
  order: SuiteOrder;
  imageDigest?: string | undefined;
  serviceImages?: Record<string, string> | undefined;
  serviceData?: Record<string, Pick<ServiceData, 'name' | 'digest'>> | undefined;
  /** The cache that the build began with. */
  cache?: CacheTree | undefined;
  /** The names of its stages (sandbox/stages.ts), lowest first. */
  stages?: readonly string[];
  /** What its steps left, and on what that depends (step-starts.ts). */
  ends?: readonly StepEnd[];
  basis?: string;
  /** The build over whose stages it ran, from its step with this index. */
  from?: StartedFrom | undefined;
  startedAt?: number | undefined;
  /** It went on where a lost attempt was, over these files (step-points.ts). */
  wentOn?: CacheTree | undefined;
  /** Whether all files that the build wrote belong to its own user. Only root can give files to other users. */
  hasOneOwner?: boolean;
}

/** What steps left, for a start at one of the steps from `first` to `last`. Those before `last` would be skipped. */
export interface StepEnd {
  first: number;
  last: number;
  /** How many of the build's stages have the files. */
  stages: number;
  added: Record<string, string>;
  /** The secrets among the added values. */
  hidden: string[];
}

/** Kept files of a build, and the number of its stages. */
export interface StartedFrom {
  name: string;
  key: string;
  stages: number;
}

export interface OpenedBuild extends Disposable, BuildFacts {
  files: string;
}

export interface KeptBuildsOptions {
  folder: string;
  /** The trees that builds began with. They must stay as long as the builds' files. */
  caches: Pick<CacheStore, 'hold'>;
  trees: Pick<CacheStore, 'hold'>;
  disk: Pick<DiskReserve, 'room'>;
  log: (message: string) => void;
  /** The limit on builds that are retained only for shells. */
  mostBuilds?: number;
}

interface KeptFacts {
  account: string;
  project: string;
  keptAt: number;
  expiresAt: number;
  forSuites: boolean;
  /** The files may be over a cache's tree, and over another build's files: retained (`over`) or unpacked (`tree`). */
  cache?: CacheTree | undefined;
  over?: string | undefined;
  tree?: CacheTree | undefined;
}

type Kept = Tree<KeptFacts>;
type Measure = (kept: Kept) => number;
const inBuilds: Measure = () => 1;

const usualMost = 24;
/** Free disk space for builds in addition to the disk's reserve, and the largest part of the disk for these files. */
const roomBytes = 1024 ** 3;
const mostOfDisk = 1 / 5;
const hour = 60 * 60 * 1000;
/** The server learns of new files only when it gets the build's outcome. Until this age they count as new. */
const newMs = 10 * 60_000;

export async function openKeptBuilds({
  folder,
  caches,
  trees,
  disk,
  log,
  mostBuilds = usualMost,
}: KeptBuildsOptions): Promise<KeptBuilds> {
  /** `needed`: files that the server may still assign jobs for. `below`: the trees that files are mounted over. */
  const needed = new Set<string>();
  const below = new Map<string, Disposable>();
  const sizes = new Map<string, number>();
  const onGone = ({ name }: Kept): void => {
    below.get(name)?.[Symbol.dispose]();
    for (const facts of [below, sizes, needed]) facts.delete(name);
  };
  const store = await openTreeStore<KeptFacts>({ folder, outlives: 'runners', onGone, log });
  const location = await lastingName(join(folder, 'location'));
  let filled = Promise.withResolvers<void>();
  /** Holds the trees that the build's files are mounted over. Undefined if one is missing. */
  const holdBelow = ({ project, cache, over, tree }: KeptFacts): DisposableStack | undefined => {
    using holding = new DisposableStack();
    const held = [
      cache && (caches.hold(project, cache) ?? null),
      tree && (trees.hold(project, tree) ?? null),
      over === undefined ? undefined : (store.hold(over) ?? null),
    ];
    for (const one of held) holding.use(one);
    return held.includes(null) ? undefined : holding.move();
  };
  /** The size is measured in the background, because a build may leave millions of files. */
  const note = ({ name, path, facts }: Kept, held: DisposableStack): void => {
    below.set(name, held);
    if (facts.forSuites) needed.add(name);
    treeSize(path).then(
      (bytes) => store.get(name) && sizes.set(name, bytes),
      () => {}, // the files were removed meanwhile
    );
    filled.resolve();
    filled = Promise.withResolvers<void>();
  };
  const oldest = (): Kept[] => store.all().toSorted((a, b) => a.facts.keptAt - b.facts.keptAt);
  // The oldest first, because newer ones may be mounted over them.
  for (const kept of oldest()) {
    const held = holdBelow(kept.facts);
    if (held) note(kept, held);
    else await store.remove(kept.name);
  }

  const inBytes: Measure = ({ name }) => sizes.get(name) ?? 0;
  const forShells = (): Kept[] => oldest().filter(({ facts }) => !facts.forSuites);
  const sumOf = (some: readonly Kept[], measure: Measure): number => some.reduce((sum, one) => sum + measure(one), 0);
  const excess = async (): Promise<Measure | undefined> => {
    if (forShells().length > mostBuilds) return inBuilds;
    const { blocks, bsize } = await statfs(folder);
    const isTooMuch = sumOf(oldest(), inBytes) > blocks * bsize * mostOfDisk || (await disk.room()) < roomBytes;
    return isTooMuch ? inBytes : undefined;
  };
  const firstToGo = (measure: Measure): Kept | undefined => {
    const some = measure === inBuilds ? forShells() : oldest();
    const accounts = Array.from(Map.groupBy(some, ({ facts }) => facts.account).values());
    const unused = accounts.map((all) => ({
      all,
      next: all.find(({ name, users }) => users === 0 && !needed.has(name)),
    }));
    return unused.filter(({ next }) => next).toSorted((a, b) => sumOf(b.all, measure) - sumOf(a.all, measure))[0]?.next;
  };

  return {
    location,

    async retain(left, build, { hours, accountId: account, forSuites }) {
      const name = randomName();
      const key = randomBytes(32);
      const now = Date.now();
      const { from, wentOn } = build;
      const { source, files } = build.order;
      const under = wentOn ? undefined : (from ?? files?.kept);
      const about: KeptFacts = {
        account,
        project: source.projectId,
        keptAt: now,
        expiresAt: now + hours * hour,
        forSuites: forSuites !== undefined,
        cache: build.cache,
        ...(under && (from ?? store.get(under.name)) ? { over: under.name } : { tree: wentOn ?? files?.packed }),
      };
      using held = holdBelow(about);
      if (!held) throw new Error('the files that the build started with are no longer stored');
      await using making = await store.begin();
      await writeFile(join(making.tree, 'sealed'), sealed(key, JSON.stringify(build)), { mode: 0o600 });
      await left.keepWhole(join(making.tree, 'files'));
      const kept = await store.add(name, making, about);
      note(kept, held.move());
      // Without a time for shells, these parts are not needed: only shells use them.
      if (hours === 0)
        for (const part of [wholeRun.tmp, wholeRun.image, wholeRun.root])
          for (const stage of ['', ...(build.stages ?? [])])
            removeTree(join(kept.path, 'files', stage, part)).catch(() => {}); // they are removed later with the other files
      return { location, name, key: key.toString('hex') };
    },

    async open(name, key, how) {
      using held = new DisposableStack();
      const kept = held.use(store.hold(name));
      if (!kept) return undefined;
      if (how !== 'below' && !kept.facts.forSuites && kept.facts.expiresAt <= Date.now()) return undefined;
      const text = opened(Buffer.from(key, 'hex'), await readFile(join(kept.path, 'sealed')));
      const facts = JSON.parse(text) as BuildFacts;
      const still = held.move();
      return { ...facts, files: join(kept.path, 'files'), [Symbol.dispose]: () => still.dispose() };
    },

    forSuites: () =>
      oldest()
        .filter(({ facts }) => facts.forSuites)
        .slice(0, most.askedAbout)
        .map(({ name, facts: { keptAt } }) => ({ name, isNew: keptAt > Date.now() - newMs })),
    async update(names, { gone, needed: stillNeeded }) {
      for (const name of names.filter((one) => store.get(one))) {
        if (stillNeeded.includes(name)) needed.add(name);
        else needed.delete(name);
        if (gone.includes(name)) await store.remove(name);
      }
    },
    isEmpty: () => store.all().length === 0,
    filled: () => filled.promise,
    projects: store.projects,
    forget: store.forget,
    async tidy(now = Date.now()) {
      for (const { name, facts } of forShells()) if (facts.expiresAt <= now) await store.remove(name);
      for (let measure = await excess(); measure; measure = await excess()) {
        const kept = firstToGo(measure);
        if (!kept) return;
        await store.remove(kept.name);
      }
    },
  };
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
