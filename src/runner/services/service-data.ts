import { createHash, createHmac, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { isReservedVariable } from '../../shared/domain/variable-names.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { treeSize } from '../../shared/lib/tree-size.ts';
import type { ServiceData, ServiceOrder } from '../../shared/protocol/index.ts';
import type { CacheStore } from '../cache-store.ts';
import { collectFiles } from '../collector.ts';
import { inspectionJob } from '../sandbox/run-files.ts';
import { sandboxPaths, wholeRun, type Sidecars, type Job, type JobLayers, type RunFiles } from '../sandbox/types.ts';

/* The data of prepared services, stored for reuse as layers of their sandboxes. The runner never reads these files. */

const directories = { home: sandboxPaths.home, tmp: '/tmp', image: '', root: '' } as const;
type Part = keyof typeof directories;
const allParts = Object.keys(directories) as Part[];

function partOf(path: string): { part: Part; names: string[] } {
  const part = allParts.find((one) => path === directories[one] || path.startsWith(`${directories[one]}/`)) ?? 'image';
  return { part, names: path.slice(directories[part].length).split('/').filter(Boolean) };
}

/** The digests are keyed, so that they reveal no secrets that the data was made with. */
export interface ServiceDataStore extends CacheStore {
  key: string;
  /** Services that did not end on request. To store their data would cost the same wait in every build. */
  deaf: Set<string>;
}

export type DataName = Pick<ServiceData, 'name' | 'digest'>;
const treeFor = ({ name, digest }: DataName) => ({ name, digest, bytes: 0 });

/** A number, because the store names trees by numbers. Random, so that branches with the same data do not share it. */
const freshName = (): string => String(BigInt(`0x1${randomBytes(7).toString('hex')}`));

/** Holds the first of these data that this runner has, until the result is disposed of. */
export async function takeData<Data extends DataName>(
  store: CacheStore,
  project: string,
  some: readonly Data[],
  signal: AbortSignal,
): Promise<(Disposable & { layers: JobLayers; data: Data }) | undefined> {
  const data = some.find((one) => store.has(project, treeFor(one)));
  if (!data) return undefined;
  const taken = await store.take(project, treeFor(data), signal);
  const of = async (part: Part): Promise<string[]> => {
    const path = join(taken.path, part);
    return (await pathExists(path, 'directory')) ? [path] : [];
  };
  const imageLayers = { below: await of('root'), above: await of('image') };
  const layers = { imageLayers, home: await of('home'), tmp: await of('tmp') };
  return { layers, data, [Symbol.dispose]: () => taken[Symbol.dispose]() };
}

export interface KeptServiceData extends DataName {
  bytes: number;
  /** The requested paths where the service has no directory. */
  missing: string[];
}

export async function keepData(
  store: CacheStore,
  project: string,
  digest: string,
  { left, data }: { left: RunFiles; data: readonly string[] },
): Promise<KeptServiceData> {
  await using making = await store.begin();
  const whole = join(making.aside, 'whole');
  const rest = join(making.aside, 'rest');
  await mkdir(rest);
  await left.keepWhole(whole);
  const found = new Set<string>();
  for (const part of allParts) {
    // If the image lacks a top-level directory, that directory is in the root part.
    const wanted = data
      .map((path) => ({ path, ...partOf(path) }))
      .filter((one) => one.part === (part === 'root' ? 'image' : part));
    const from = join(whole, wholeRun[part]);
    // The target may already exist as an empty directory, which the rename replaces.
    if (wanted.length > 0 && (await prune(from, wanted, { rest, found }))) await rename(from, join(making.tree, part));
  }
  const kept = { name: freshName(), digest, bytes: await treeSize(making.tree) };
  await store.add(project, treeFor(kept), making);
  return { ...kept, missing: data.filter((path) => !found.has(path)) };
}

/**
 * Moves everything below `path` except the wanted paths to `rest`. Parent directories keep their owners and modes. No
 * link is followed. Other services of the build still run and may have these directories open. So each directory is
 * opened once, and its entries are reached through the descriptor. Returns false if `path` is no directory.
 */
async function prune(
  path: string,
  wanted: readonly { path: string; names: readonly string[] }[],
  { rest, found }: { rest: string; found: Set<string> },
): Promise<boolean> {
  const opened = await open(path, constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => undefined);
  if (!opened) return false;
  await using directory = opened;
  const here = wanted.filter(({ names }) => names.length === 0);
  for (const one of here) found.add(one.path);
  if (here.length > 0) return true;
  const inside = `/proc/self/fd/${directory.fd}/`;
  // A file name may contain bytes that text cannot represent.
  for (const name of await readdir(inside, { encoding: 'buffer' })) {
    const below = wanted
      .filter(({ names: [first = ''] }) => name.equals(Buffer.from(first)))
      .map((one) => ({ ...one, names: one.names.slice(1) }));
    if (below.length > 0 && (await prune(`${inside}${name.toString()}`, below, { rest, found }))) continue;
    await rename(Buffer.concat([Buffer.from(inside), name]), join(rest, randomName()));
  }
  return true;
}

/** Limits on the files that `prepare_inputs` selects. */
const mostFiles = 20_000;
const mostBytes = 2 * 1024 ** 3;

export interface Filling {
  /** Identifies the build's image, user and dependencies. */
  parts: object;
  /** The commit's work tree, if the build begins with one. `over` identifies everything mounted over it. */
  checkout: string | undefined;
  over: object;
}

export interface Digest {
  /** Undefined if it cannot be computed. Then `why` has the reason. */
  digest?: string;
  why?: string;
  unmatched: readonly string[];
}

/** Headrace sets these variables itself, and some differ in each build. */
const isOwn = (name: string): boolean => isReservedVariable(name) || name === 'TRACEPARENT';

interface Asked {
  order: ServiceOrder;
  build: Pick<Job, 'environment' | 'workspace'>;
  filling: Filling;
  image: string;
  signal: AbortSignal;
}

export async function digestOfData(
  sidecars: Sidecars,
  key: string,
  { order, build, filling, image, signal }: Asked,
): Promise<Digest> {
  const { name, command, environment, prepare, prepareInputs, data, software, prefixes } = order;
  const variables = Object.entries(build.environment).filter(([variable]) => !isOwn(variable));
  const made = {
    service: { name, image, software, prefixes, command, variables: inOrder(Object.entries(environment)) },
    build: { ...filling.parts, variables: inOrder(variables) },
    prepare,
    data: data.toSorted(),
  };
  const {
    files,
    unmatched = [],
    why,
  } = await (prepareInputs.length > 0
    ? inputsOf(sidecars, prepareInputs, build.workspace, signal)
    : wholeTree(sidecars, filling, signal));
  if (files === undefined) return { unmatched, ...(why !== undefined && { why }) };
  return {
    digest: createHmac('sha256', key)
      .update(JSON.stringify([made, files]))
      .digest('hex'),
    unmatched,
  };
}

const inOrder = <T>(entries: readonly [string, T][]): [string, T][] => entries.toSorted(([a], [b]) => (a < b ? -1 : 1));

interface Inputs {
  files?: object;
  unmatched?: readonly string[];
  why?: string;
}

async function inputsOf(
  sidecars: Sidecars,
  globs: readonly string[],
  workspace: Job['workspace'],
  signal: AbortSignal,
): Promise<Inputs> {
  const layers = 'checkout' in workspace ? [workspace.checkout, ...(workspace.over ?? [])] : [];
  const inspect: RunFiles['inspect'] = (inspection) =>
    sidecars.start({ ...inspectionJob(inspection), workspace: { layers } }).ended;
  const files = new Map<string, string>();
  const found = await collectFiles({ inspect }, { globs, mostFiles, mostBytes, signal }, async ({ path, content }) => {
    const own = createHash('sha256');
    for await (const piece of content) own.update(piece);
    files.set(path, own.digest('hex'));
  });
  const { unmatched, leftOutCounts } = found;
  if (found.isPartial || Object.keys(leftOutCounts).length > 0)
    return { unmatched, why: 'some of its prepare_inputs cannot be read, or there are too many' };
  if (found.failure !== null) return { unmatched, why: 'its prepare_inputs could not be read' };
  return { files: inOrder([...files]), unmatched };
}

/** The commit's tree by its git name, and the layers over it. */
async function wholeTree(sidecars: Sidecars, { checkout, over }: Filling, signal: AbortSignal): Promise<Inputs> {
  if (checkout === undefined) return { files: { over } };
  let printed = '';
  const { exitStatus } = await sidecars.start({
    ...inspectionJob({
      command: "exec git --git-dir=.git rev-parse --verify 'HEAD^{tree}' 2>/dev/null",
      limits: { memoryBytes: 256 * 1024 ** 2, processes: 16, timeoutMs: 60_000 },
      output: (chunk) => void (printed = `${printed}${chunk.toString()}`.slice(0, 100)),
      signal,
    }),
    workspace: { layers: [checkout] },
  }).ended;
  const [, tree] = /^([0-9a-f]{40,64})\n$/.exec(printed) ?? [];
  if (exitStatus !== 0 || tree === undefined) return { why: "the commit's tree could not be read" };
  return { files: { tree, over } };
}
