import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import type { CacheTree, SuiteOrder } from '../shared/protocol/index.ts';
import { roots, type Root } from './cache-trees.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerDeps } from './job-runner.ts';
import type { OpenedBuild } from './kept-builds.ts';
import { lentFilesFolder, lentFolder } from '../shared/domain/files-from.ts';
import { buildUser, sandboxPaths, wholeRun, type Mount, type RunUser, type Sandboxes } from './sandbox/types.ts';

/** If a suite begins with another suite's files, its build is mounted over them. No build changes these files. */
export interface Layers extends Record<Root, readonly string[]> {
  /** If false, the layers are mounted over the commit's work tree. */
  isWhole: boolean;
  /** Only for a run that goes on where another was: of its /tmp, and of its image. */
  tmp: readonly string[];
  image: readonly string[];
  /** Whether all these files belong to the run's user, in any run. */
  hasOneOwner: boolean;
}

/** If an unpacked tree has this file, all its files belong to the run's user. */
export const oneOwner = 'facts/one-owner';

/** Where an unpacked tree has the files of `/tmp`, if it goes on where a run was. */
export const tmpPart = 'facts/tmp';

export class FilesGoneError extends Error {
  override name = 'FilesGoneError';
  /** The build whose lent files are gone. */
  build?: string;
}

export interface Holding {
  /** Holds everything that the layers need, until it is disposed of. */
  held: DisposableStack;
  signal: AbortSignal;
}

const plainUser: RunUser = { ...buildUser, groups: [] };
const none: Layers = { workspace: [], home: [], tmp: [], image: [], isWhole: false, hasOneOwner: true };

/** Returns the files that another suite's build produced for this build. */
export async function takeFiles(deps: RunnerDeps, order: SuiteOrder, holding: Holding): Promise<Layers> {
  const { files, source, isFork = true } = order;
  const { held, signal } = holding;
  if (!files) return none;
  try {
    const build = files.kept && (await deps.kept?.open(files.kept.name, files.kept.key));
    if (build) {
      held.use(build);
      const { order: by } = build;
      // The server decides on access. This second check rejects files of another project or of a fork.
      if (by.source.projectId !== source.projectId || (by.isFork ?? true) !== isFork) throw new FilesGoneError();
      return { ...(await layersOf(deps, build, holding)), tmp: [], image: [] };
    }
    if (!files.packed) throw new FilesGoneError();
    return { ...(await unpackedLayers(deps, source, files.packed, holding)), tmp: [] };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FilesGoneError || error instanceof StoreAwayError || isNoSpace(error)) throw error;
    deps.log(`the files of another suite are missing: ${messageOf(error)}`);
    throw new FilesGoneError('the files of another suite are missing', { cause: error });
  }
}

export async function unpackedLayers(
  deps: RunnerDeps,
  { projectId }: Pick<SuiteOrder['source'], 'projectId'>,
  tree: CacheTree,
  { held, signal }: Holding,
): Promise<Layers> {
  const { path } = held.use(await deps.trees.take(projectId, tree, signal));
  const has = (part: string): boolean => lstatSync(join(path, part), { throwIfNoEntry: false }) !== undefined;
  return {
    workspace: [join(path, 'workspace')],
    home: [join(path, 'home')],
    tmp: has(tmpPart) ? [join(path, tmpPart)] : [],
    image: [],
    isWhole: true,
    hasOneOwner: has(oneOwner),
  };
}

/** Without `upTo`, all files of a build. With it, those of so many of its stages. */
export async function layersOf(deps: RunnerDeps, build: OpenedBuild, holding: Holding, upTo?: number): Promise<Layers> {
  const { order, cache, files, stages = [], hasOneOwner = false } = build;
  const { held, signal } = holding;
  const tree = cache && held.use(await deps.caches.take(order.source.projectId, cache, signal)).path;
  const began = overCache(await takeStart(deps, build, holding), tree);
  const made = [...stages.slice(0, upTo).map((stage) => join(files, stage)), ...(upTo === undefined ? [files] : [])];
  const written = (part: Root | 'tmp' | 'image'): string[] => [
    ...began[part],
    ...made.map((folder) => join(folder, wholeRun[part])),
  ];
  return {
    workspace: written('workspace'),
    home: written('home'),
    tmp: written('tmp'),
    image: order.image ? written('image') : [],
    isWhole: began.isWhole,
    hasOneOwner: began.hasOneOwner && hasOneOwner,
  };
}

async function takeStart(deps: RunnerDeps, build: OpenedBuild, holding: Holding): Promise<Layers> {
  const { from, order, wentOn } = build;
  if (wentOn) return unpackedLayers(deps, order.source, wentOn, holding);
  if (!from) return takeFiles(deps, order, holding);
  const below = await deps.kept?.open(from.name, from.key, 'below');
  if (!below) throw new FilesGoneError('the files of the build before are missing');
  const { held } = holding;
  return layersOf(deps, held.use(below), holding, from.stages);
}

/**
 * The user of a run without an image over these files; undefined for the default. By default such a run has one user
 * ID, because it needs no others. There, files of other users would have no owner, and some would be unreadable.
 */
export function whoRunsOver(
  { hasOneOwner }: Pick<Layers, 'hasOneOwner'>,
  { hasManyUsers }: Pick<Sandboxes, 'hasManyUsers'>,
) {
  return hasOneOwner || !hasManyUsers ? undefined : plainUser;
}

/** Puts the cache's tree below the other suite's files. If both have a file, that suite's file counts. */
export function overCache(layers: Layers, tree: string | undefined): Layers {
  if (tree === undefined) return layers;
  const [workspace, home] = roots.map((root) => [join(tree, root), ...layers[root]]);
  return { ...layers, workspace: workspace ?? [], home: home ?? [] };
}

export interface Lent {
  mounts: Mount[];
  hasOneOwner: boolean;
}

/** What builds of other suites left in the workspace, read-only beside the checkout. */
export async function takeLent(deps: RunnerDeps, order: SuiteOrder, checkout: string, holding: Holding): Promise<Lent> {
  const { lent = [] } = order;
  const folder = join(sandboxPaths.workspace, lentFilesFolder);
  const mounts: Mount[] = lent.length > 0 ? [{ at: folder, layers: [], isLent: true }] : [];
  let hasOneOwner = true;
  for (const { variant, ...files } of lent)
    try {
      const layers = await takeFiles(deps, { ...order, files }, holding);
      const all = layers.isWhole ? layers.workspace : [checkout, ...layers.workspace];
      const parts = [files.suite, variant].filter((part) => part !== '').map(lentFolder);
      mounts.push({ at: join(folder, ...parts), layers: [...all], isLent: true });
      hasOneOwner &&= layers.hasOneOwner;
    } catch (error) {
      if (error instanceof FilesGoneError) error.build = files.build;
      throw error;
    }
  return { mounts, hasOneOwner };
}
