import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { locateCachePath } from '../shared/domain/cache-paths.ts';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import type { CacheOrder, Repository, SavedCache } from '../shared/protocol/index.ts';
import { listsChanged, packedIn, packTree, unpackTree } from './cache-trees.ts';
import type { Making } from './tree-store.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerDeps } from './job-runner.ts';
import { makeNewer } from './newer-files.ts';
import type { PendingFiles } from './outbox.ts';
import { unlessStoreAway } from './retry.ts';
import type { Ended, RunFiles } from './sandbox/types.ts';
import { LostClaimError, storeBlob, TooLargeError } from './transfers.ts';

/**
 * A suite's cache in one build. If the build passed and changed files at the suite's paths, these paths are packed as a
 * new tree. If the build wrote the same files again, the old tree serves its commit too.
 */
export interface SuiteCache extends AsyncDisposable {
  tree: string | undefined;
  /** The directory with the commit's files that must be newer than the tree, if there are any. */
  changes: string | undefined;
  /** Packs the files to save. Call it before the run's files are removed. */
  take(left: RunFiles, ended: Ended, hasBegun?: boolean): Promise<void>;
  /** Stores the packed files on the server or in the outbox. Undefined if there is nothing to save. */
  save(): Promise<SavedCache | undefined>;
}

export interface CacheTask {
  id: string;
  source: Repository;
  sha: string;
  checkout: string;
  isOwnCheckout: boolean;
  writeLog: (text: string) => Promise<void>;
  /** Takes a cache that the server cannot store at the moment. */
  waiting?: Pick<PendingFiles, 'isStuck' | 'addCache' | 'hasCache'> | undefined;
  signal: AbortSignal;
}

/** Undefined without a usable cache. If the suite has an unusable cache, the log shows why. */
export async function openSuiteCache(
  deps: RunnerDeps,
  order: CacheOrder | undefined,
  task: CacheTask,
): Promise<SuiteCache | undefined> {
  if (!order) return undefined;
  if (!deps.sandboxes.hasLayers) {
    await task.writeLog('No cache is used: this runner cannot make overlays.\n');
    return undefined;
  }
  const locations = order.paths.map((path) => ({ declared: path, ...locateCachePath(path) }));
  const tracked = locations.find(({ root, path }) => root === 'workspace' && isOccupied(task.checkout, path));
  if (tracked && task.isOwnCheckout) {
    await task.writeLog(
      `No cache is used: ${tracked.declared} or a directory on its path is part of the repository.\n`,
    );
    return undefined;
  }
  await using opening = new AsyncDisposableStack();
  const restored = await restore(deps, order, task, opening);
  const held = opening.move();
  const { savesAs, mostBytes } = order;
  let making: Making | undefined;
  let bytes: number | undefined;
  /** Whether the build wrote the tree's files again, unchanged. */
  let isSame = false;
  const orLog = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      task.signal.throwIfAborted();
      deps.log(`a cache was not saved: ${messageOf(error)}`);
      await task.writeLog(`The cache is not saved: ${whyNot(error, order)}.\n`);
      return undefined;
    }
  };
  return {
    tree: restored?.tree,
    changes: restored?.changes,
    async take(left, { exitStatus, reason }, hasBegun = true) {
      const hasFailed = hasBegun && exitStatus !== null && order.savesFailed === true;
      if (savesAs === undefined || reason !== null || (exitStatus !== 0 && !hasFailed)) return;
      await orLog(async () => {
        const { layers } = left;
        // Usually the build wrote nothing there. Then this check of the names is all that is needed.
        if (locations.some(({ root, path }) => hasWritten(layers[root].made, path))) {
          making = held.use(await deps.caches.begin());
          const leaving = {
            left: layers,
            old: restored?.tree,
            paths: locations,
            checkout: task.checkout,
            into: making,
            most: mostBytes,
          };
          bytes = await packTree(packingOf(deps, task), leaving);
          isSame = bytes === undefined;
        }
        if (bytes === undefined && restored) await task.writeLog('The cache is unchanged.\n');
      });
    },
    async save() {
      const { found } = order;
      if (isSame && restored && found && found.sha !== task.sha && task.isOwnCheckout)
        return { digest: found.digest, began: found.id };
      if (savesAs === undefined || !making || bytes === undefined) return undefined;
      const tree = { name: savesAs, bytes, making };
      const digest = await orLog(() => store(deps, task, tree));
      if (digest === undefined) return undefined;
      await task.writeLog(task.waiting?.hasCache() ? waits : `Saved the cache (${sizeText(bytes)}).\n`);
      return { digest, ...(restored && found && { began: found.id }) };
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

function packingOf({ sandboxes }: RunnerDeps, { id, signal }: CacheTask) {
  return { id: `${id}-cache`, sandboxes, signal };
}

type Restored = Pick<SuiteCache, 'tree' | 'changes'>;

async function restore(
  deps: RunnerDeps,
  { found }: CacheOrder,
  task: CacheTask,
  held: AsyncDisposableStack,
): Promise<Restored | undefined> {
  const { caches, log } = deps;
  const { writeLog, signal, source } = task;
  if (!found) {
    await writeLog('There is no cache yet.\n');
    return undefined;
  }
  const named = `the cache of ${found.branch} (${sizeText(found.bytes)})`;
  if (!caches.has(source.projectId, found)) await writeLog(`Fetching ${named}.\n`);
  try {
    const { path: tree } = held.use(await caches.take(source.projectId, found, signal));
    // If the build begins with another suite's files, they keep their times.
    const changes = task.isOwnCheckout ? await newerFiles(deps, { from: found.sha, tree }, task, held) : undefined;
    await writeLog(`Restored ${named}.\n`);
    return { tree, changes };
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache was not restored: ${messageOf(error)}`);
    const why = isNoSpace(error) ? 'the disk of the runner is full' : 'it could not be fetched';
    await writeLog(`The build starts without ${named}: ${why}.\n`);
    return undefined;
  }
}

/** Makes files that differ from the cache's commit newer than the cache, so that tools rebuild dependent files. */
async function newerFiles(
  deps: RunnerDeps,
  { from, tree }: { from: string; tree: string },
  task: CacheTask,
  held: AsyncDisposableStack,
): Promise<string | undefined> {
  const { source, sha: to, checkout, signal } = task;
  const nothing = { changed: [], lessened: [] };
  const differing = from === to ? nothing : await deps.mirrors.difference({ ...source, from, to, signal });
  if (differing && !differing.changed.length && !differing.lessened.length && !listsChanged(tree)) return undefined;
  const making = held.use(await deps.caches.begin());
  return makeNewer(packingOf(deps, task), { checkout, tree, differing, making });
}

const waits = 'The cache waits on the runner, because the server cannot store it now.\n';

/** Returns the tree's digest; undefined if the claim is lost. The outbox takes a tree that the server cannot store. */
async function store(
  deps: RunnerDeps,
  task: CacheTask,
  { name, bytes, making }: { name: string; bytes: number; making: Making },
): Promise<string | undefined> {
  const { link, caches, log } = deps;
  const { id, source, waiting, signal } = task;
  const packed = packedIn(making.packed);
  if (waiting?.isStuck()) return waiting.addCache(packed);
  const [sent, unpacked] = await Promise.allSettled([
    storeBlob(link, id, packed, signal, unlessStoreAway),
    unpackTree(packingOf(deps, task), making),
  ]);
  if (sent.status === 'rejected') {
    if (sent.reason instanceof StoreAwayError && waiting) return waiting.addCache(packed);
    if (sent.reason instanceof LostClaimError) return undefined;
    throw sent.reason;
  }
  const { value: digest } = sent;
  try {
    if (unpacked.status === 'rejected') throw unpacked.reason;
    await caches.add(source.projectId, { name, digest, bytes }, making);
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache is not stored on this machine: ${messageOf(error)}`); // the next build fetches it
  }
  return digest;
}

/** Whether a run may have changed something at a path. Checks only the first name: a file or link may hide the rest. */
function hasWritten(made: readonly string[], path: string): boolean {
  const [first = ''] = path.split('/');
  return made.some((layer) => lstatSync(join(layer, first), { throwIfNoEntry: false }) !== undefined);
}

/** Whether the commit has an entry at a path, or a file or link above it. Follows no link. */
function isOccupied(checkout: string, path: string): boolean {
  const parts = path.split('/');
  for (let count = 1; count <= parts.length; count += 1) {
    const found = lstatSync(join(checkout, ...parts.slice(0, count)), { throwIfNoEntry: false });
    if (!found) return false;
    if (count === parts.length || !found.isDirectory()) return true;
  }
  return false;
}

function whyNot(error: unknown, { mostBytes }: CacheOrder): string {
  if (error instanceof TooLargeError) return `it exceeds the limit of ${sizeText(mostBytes)}`;
  return isNoSpace(error) ? 'the disk is full' : 'it could not be packed or stored';
}

function sizeText(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
