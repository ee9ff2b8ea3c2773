import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { placeOf } from '../lib/cache-paths.ts';
import { isNoSpace } from '../lib/disk-reserve.ts';
import type { CacheOrder, SavedCache } from '../protocol/index.ts';
import { packedIn, packTree, unpackTree } from './cache-trees.ts';
import type { Making, TakenTree } from './cache-store.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerServices } from './job-runner.ts';
import type { Waiting } from './outbox.ts';
import { unlessStoreAway } from './retry.ts';
import type { Ended, Left } from './sandbox/types.ts';
import { storeBlob, TooLargeError } from './transfers.ts';

/**
 * The cache of a suite during one build. Its tree lies below what the build writes, so that restoring it costs a few mounts.
 * What a passed build leaves at the suite's paths is packed as a new tree, if the build has changed anything there.
 */
export interface SuiteCache extends AsyncDisposable {
  /** The directory of the tree that the build begins with; undefined where there is none. */
  tree: string | undefined;
  /** Packs what is to be kept. To be called before the files of the run go. */
  take(left: Left, ended: Ended): Promise<void>;
  /** Stores what was taken, or leaves it to the outbox; undefined where there is nothing to keep. */
  save(): Promise<SavedCache | undefined>;
}

export interface CacheTask {
  id: string;
  project: string;
  checkout: string;
  say: (text: string) => Promise<void>;
  /** Takes what the server cannot store at the moment. */
  waiting?: Pick<Waiting, 'isStuck' | 'addCache' | 'hasCache'> | undefined;
  signal: AbortSignal;
}

/** Undefined where the suite has no cache, or none can be used; the log says why. */
export async function openSuiteCache(
  services: RunnerServices,
  order: CacheOrder | undefined,
  task: CacheTask,
): Promise<SuiteCache | undefined> {
  if (!order) return undefined;
  if (!services.sandboxes.hasLayers) {
    await task.say('No cache is used: this runner cannot lay directories over each other.\n');
    return undefined;
  }
  const places = order.paths.map((path) => ({ said: path, ...placeOf(path) }));
  const tracked = places.find(({ root, path }) => root === 'workspace' && isInWay(task.checkout, path));
  if (tracked) {
    await task.say(`No cache is used: ${tracked.said} is part of the repository, or something on the way to it is.\n`);
    return undefined;
  }
  const taken = await restore(services, order, task);
  const began = taken && order.found;
  const { savesAs, mostBytes } = order;
  let making: Making | undefined;
  /** The size of the packed tree, when there is one. */
  let bytes: number | undefined;
  const orSay = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      task.signal.throwIfAborted();
      services.log(`a cache was not saved: ${messageOf(error)}`);
      await task.say(`The cache is not saved: ${whyNot(error, order)}.\n`);
      return undefined;
    }
  };
  return {
    tree: taken?.path,
    async take(left, { exitStatus, reason }) {
      if (savesAs === undefined || exitStatus !== 0 || reason !== null) return;
      await orSay(async () => {
        const { layers } = left;
        // Mostly the build has written nothing there: then this look at names is all it costs.
        if (places.some(({ root, path }) => hasWritten(layers[root].made, path))) {
          making = await services.caches.begin();
          const leaving = { left: layers, old: taken?.path, paths: places, into: making.packed, most: mostBytes };
          bytes = await packTree(packingOf(services, task), leaving);
        }
        if (bytes === undefined && began) await task.say('The cache is unchanged.\n');
      });
    },
    async save() {
      if (savesAs === undefined || !making || bytes === undefined) return undefined;
      const tree = { name: savesAs, bytes, making };
      const digest = await orSay(() => store(services, task, tree));
      if (digest === undefined) return undefined;
      await task.say(task.waiting?.hasCache() ? waits : `Saved the cache (${inWords(bytes)}).\n`);
      return { digest, ...(began && { began: began.id }) };
    },
    async [Symbol.asyncDispose]() {
      taken?.[Symbol.dispose]();
      await making?.[Symbol.asyncDispose]();
    },
  };
}

function packingOf({ sandboxes }: RunnerServices, { id, signal }: CacheTask) {
  return { id: `${id}-cache`, sandboxes, signal };
}

/** A build without its cache is slower, and works. */
async function restore(
  { caches, log }: RunnerServices,
  { found }: CacheOrder,
  { project, say, signal }: CacheTask,
): Promise<TakenTree | undefined> {
  if (!found) {
    await say('There is no cache yet.\n');
    return undefined;
  }
  const named = `the cache of ${found.branch} (${inWords(found.bytes)})`;
  if (!caches.has(project, found)) await say(`Fetching ${named}.\n`);
  try {
    const taken = await caches.take(project, found, signal);
    await say(`Restored ${named}.\n`);
    return taken;
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache was not restored: ${messageOf(error)}`);
    const why = isNoSpace(error) ? 'the disk of the runner is full' : 'it could not be fetched';
    await say(`The build begins without ${named}: ${why}.\n`);
    return undefined;
  }
}

const waits = 'The cache waits on the runner, because the server cannot store it now.\n';

/**
 * Stores a packed tree on the server, and unpacks it here meanwhile, as every other runner will. While the server cannot
 * store it, it goes to the outbox. Returns its digest; undefined where the claim is lost, and the build with it.
 */
async function store(
  services: RunnerServices,
  task: CacheTask,
  { name, bytes, making }: { name: string; bytes: number; making: Making },
): Promise<string | undefined> {
  const { link, caches, log } = services;
  const { id, project, waiting, signal } = task;
  const packed = packedIn(making.packed);
  if (waiting?.isStuck()) return waiting.addCache(packed);
  const [sent, unpacked] = await Promise.allSettled([
    storeBlob(link, id, packed, signal, unlessStoreAway),
    unpackTree(packingOf(services, task), { from: making.packed, tree: making.tree }),
  ]);
  if (sent.status === 'rejected') {
    if (sent.reason instanceof StoreAwayError && waiting) return waiting.addCache(packed);
    throw sent.reason;
  }
  const { value: digest } = sent;
  if (digest === undefined) return undefined;
  try {
    if (unpacked.status === 'rejected') throw unpacked.reason;
    await caches.place(project, { name, digest, bytes }, making);
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache is not kept on this machine: ${messageOf(error)}`); // the next build fetches it
  }
  return digest;
}

/** Whether a run may have changed something at a path. A directory on the way may hide what lies below it. */
function hasWritten(made: string, path: string): boolean {
  const [first = ''] = path.split('/');
  return lstatSync(join(made, first), { throwIfNoEntry: false }) !== undefined;
}

/** Whether something of the commit lies at a path, or is a file or a link on the way to it. No link is followed. */
function isInWay(checkout: string, path: string): boolean {
  const parts = path.split('/');
  for (let count = 1; count <= parts.length; count += 1) {
    const found = lstatSync(join(checkout, ...parts.slice(0, count)), { throwIfNoEntry: false });
    if (!found) return false;
    if (count === parts.length || !found.isDirectory()) return true;
  }
  return false;
}

function whyNot(error: unknown, { mostBytes }: CacheOrder): string {
  if (error instanceof TooLargeError) return `it is larger than ${inWords(mostBytes)}, which is the most that is kept`;
  return isNoSpace(error) ? 'the disk is full' : 'it could not be packed or stored';
}

function inWords(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
