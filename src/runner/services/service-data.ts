import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathExists } from '../../lib/path-exists.ts';
import { randomName } from '../../lib/random-name.ts';
import type { ServiceOrder } from '../../protocol/index.ts';
import type { CacheStore } from '../cache-store.ts';
import { collectFiles } from '../collector.ts';
import { inspectionJob } from '../sandbox/run-files.ts';
import { sandboxPaths, wholeRun, type Beside, type Job, type JobLayers, type RunFiles } from '../sandbox/types.ts';

/**
 * What services hold after they were filled, for later ones that would be filled in the same way. It is kept as the layers of
 * the service's sandbox, so that to begin with it costs a few mounts, whatever it holds. The runner never looks inside.
 */

/** The parts of a sandbox in which data can be, with the directory that each lies at. */
const directories = { home: sandboxPaths.home, tmp: '/tmp', image: '', root: '' } as const;
type Part = keyof typeof directories;
const allParts = Object.keys(directories) as Part[];

/** Where data lies: in which part of the sandbox, and how it is called there. */
function partOf(path: string): { part: Part; names: string[] } {
  const part = allParts.find((one) => path === directories[one] || path.startsWith(`${directories[one]}/`)) ?? 'image';
  return { part, names: path.slice(directories[part].length).split('/').filter(Boolean) };
}

/** A tree in the store has a number for its name. */
function treeFor(digest: string): { name: string; digest: string; bytes: number } {
  return { name: String(BigInt(`0x1${digest.slice(0, 14)}`)), digest, bytes: 0 };
}

/** What was kept under this digest, until it is disposed of; undefined where nothing is. */
export async function findData(
  store: CacheStore,
  project: string,
  digest: string,
  signal: AbortSignal,
): Promise<(Disposable & { layers: JobLayers }) | undefined> {
  const tree = treeFor(digest);
  if (!store.has(project, tree)) return undefined;
  const taken = await store.take(project, tree, signal);
  const of = async (part: Part): Promise<string[]> => {
    const path = join(taken.path, part);
    return (await pathExists(path, 'directory')) ? [path] : [];
  };
  const imageLayers = { below: await of('root'), above: await of('image') };
  const layers = { imageLayers, home: await of('home'), tmp: await of('tmp') };
  return { layers, [Symbol.dispose]: () => taken[Symbol.dispose]() };
}

/** Keeps what a service that has ended holds at these paths. */
export async function keepData(
  store: CacheStore,
  project: string,
  digest: string,
  { left, data }: { left: RunFiles; data: readonly string[] },
): Promise<void> {
  await using making = await store.begin();
  const whole = join(dirname(making.tree), 'whole');
  const rest = join(dirname(making.tree), 'rest');
  await mkdir(rest);
  await left.keepWhole(whole);
  for (const part of allParts) {
    // A directory that the image does not have at its top lies in the root.
    const wanted = data.map(partOf).filter((one) => one.part === (part === 'root' ? 'image' : part));
    const from = join(whole, wholeRun[part]);
    const names = wanted.map((one) => one.names);
    // There may be an empty one already, which a rename replaces.
    if (names.length > 0 && (await prune(from, names, rest))) await rename(from, join(making.tree, part));
  }
  await store.add(project, treeFor(digest), making);
}

/**
 * Moves all that does not lie at one of these paths below a directory to another directory, `rest`. What leads there stays as
 * the service had it, with its owners and modes. A link is never followed: where one stands in the way, nothing is kept behind
 * it. Other services of the build still run, and may have these directories open: so each is opened once, and what is in it is
 * named by that. Answers false where it is no directory.
 */
async function prune(path: string, wanted: readonly (readonly string[])[], rest: string): Promise<boolean> {
  const opened = await open(path, constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => undefined);
  if (!opened) return false;
  await using directory = opened;
  if (wanted.some((names) => names.length === 0)) return true;
  const inside = `/proc/self/fd/${directory.fd}/`;
  // A name may be any bytes, and no text has all of them.
  for (const name of await readdir(inside, { encoding: 'buffer' })) {
    const below = wanted.filter(([first = '']) => name.equals(Buffer.from(first))).map((names) => names.slice(1));
    if (below.length > 0 && (await prune(`${inside}${name.toString()}`, below, rest))) continue;
    await rename(Buffer.concat([Buffer.from(inside), name]), join(rest, randomName()));
  }
  return true;
}

/** The files of a build that decide what fills a service: more are not looked at. */
const mostFiles = 20_000;
const mostBytes = 2 * 1024 ** 3;

/** Everything that decides what a service holds after it was filled; undefined where that cannot be told. */
export async function digestOfData(
  beside: Beside,
  order: ServiceOrder,
  build: Pick<Job, 'workspace' | 'limits'> & { signal: AbortSignal },
  imageDigest: string | undefined,
): Promise<string | undefined> {
  const { command, environment, prepare, prepareInputs, data, software } = order;
  const variables = Object.entries(environment).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const hash = createHash('sha256');
  const made = { image: imageDigest ?? '', software, command, variables, prepare, data: data.toSorted() };
  hash.update(JSON.stringify(made));
  if (prepareInputs.length > 0) {
    const { workspace } = build;
    const layers = 'checkout' in workspace ? [workspace.checkout, ...(workspace.over ?? [])] : [];
    const inspect: RunFiles['inspect'] = (inspection) =>
      beside.start({ ...inspectionJob(inspection), workspace: { layers } }).ended;
    const wanted = { globs: prepareInputs, mostFiles, mostBytes, signal: build.signal };
    const files = new Map<string, string>();
    const found = await collectFiles({ inspect }, wanted, async ({ path, content }) => {
      const own = createHash('sha256');
      for await (const piece of content) own.update(piece);
      files.set(path, own.digest('hex'));
    });
    const { large = 0, many = 0 } = found.leftOutCounts;
    if (found.failure !== null || found.isPartial || large + many > 0) return undefined;
    hash.update(JSON.stringify([...files].toSorted(([a], [b]) => (a < b ? -1 : 1))));
  }
  return hash.digest('hex');
}
