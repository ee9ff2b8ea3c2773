import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import type { SuiteOrder } from '../shared/protocol/index.ts';
import { roots, type Root } from './cache-trees.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerServices } from './job-runner.ts';
import type { OpenedBuild } from './kept-builds.ts';
import { buildUser, wholeRun, type RunUser, type Sandboxes } from './sandbox/types.ts';

/** If a suite begins with another one's files, its build is mounted over them. No build changes them. */
export interface Layers extends Record<Root, readonly string[]> {
  /** Otherwise the layers are mounted over the commit's work tree. */
  isWhole: boolean;
  /** Whether all of them belong to whoever runs, in any run. */
  hasOneOwner: boolean;
}

/** In an unpacked tree: all of its files belong to whoever runs. */
export const oneOwner = 'facts/one-owner';

export class FilesGoneError extends Error {
  override name = 'FilesGoneError';
}

interface Holding {
  /** Keeps what the layers need until it is disposed of. */
  held: DisposableStack;
  signal: AbortSignal;
}

const plainUser: RunUser = { ...buildUser, groups: [] };
const none: Layers = { workspace: [], home: [], isWhole: false, hasOneOwner: true };

/** The files that another suite's build left for this one. */
export async function takeFiles(services: RunnerServices, order: SuiteOrder, holding: Holding): Promise<Layers> {
  const { files, source, isFork = true } = order;
  const { held, signal } = holding;
  if (!files) return none;
  try {
    const build = files.kept && (await services.kept?.open(files.kept.name, files.kept.key));
    if (build) {
      held.use(build);
      const { order: by } = build;
      // The server decides on access. If it is ever wrong, files of another project or of a fork are not used.
      if (by.source.projectId !== source.projectId || (by.isFork ?? true) !== isFork) throw new FilesGoneError();
      return await layersOf(services, build, holding);
    }
    if (!files.packed) throw new FilesGoneError();
    const { path } = held.use(await services.trees.take(source.projectId, files.packed, signal));
    const hasOneOwner = lstatSync(join(path, oneOwner), { throwIfNoEntry: false }) !== undefined;
    return { workspace: [join(path, 'workspace')], home: [join(path, 'home')], isWhole: true, hasOneOwner };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FilesGoneError || error instanceof StoreAwayError || isNoSpace(error)) throw error;
    services.log(`the files of another suite are not there: ${messageOf(error)}`);
    throw new FilesGoneError('the files of another suite are not there', { cause: error });
  }
}

export async function layersOf(services: RunnerServices, build: OpenedBuild, holding: Holding): Promise<Layers> {
  const { order, cache, files, hasOneOwner = false } = build;
  const { held, signal } = holding;
  const tree = cache && held.use(await services.caches.take(order.source.projectId, cache, signal)).path;
  const began = overCache(await takeFiles(services, order, holding), tree);
  const written = (root: Root): string[] => [...began[root], join(files, wholeRun[root])];
  return {
    workspace: written('workspace'),
    home: written('home'),
    isWhole: began.isWhole,
    hasOneOwner: began.hasOneOwner && hasOneOwner,
  };
}

/**
 * Who runs without an image over these files. Usually that run has one user ID, which nothing else needs. Files of other users
 * would be nobody's there, and some could not even be read.
 */
export function whoRunsOver({ hasOneOwner }: Layers, { hasManyUsers }: Pick<Sandboxes, 'hasManyUsers'>) {
  return hasOneOwner || !hasManyUsers ? undefined : plainUser;
}

/** The cache's tree is mounted below: if both have a file, the suite's file counts. */
export function overCache(layers: Layers, tree: string | undefined): Layers {
  if (tree === undefined) return layers;
  const [workspace, home] = roots.map((root) => [join(tree, root), ...layers[root]]);
  return { ...layers, workspace: workspace ?? [], home: home ?? [] };
}
