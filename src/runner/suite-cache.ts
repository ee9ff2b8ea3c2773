import { lstatSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { most } from '../lib/bounds.ts';
import { placeOf } from '../lib/cache-paths.ts';
import { isNoSpace } from '../lib/disk-reserve.ts';
import type { CacheLayer, CacheOrder } from '../protocol/index.ts';
import { packedIn, packLayer, packWhole, parts, unpackLayer } from './cache-layers.ts';
import type { Making, TakenLayers } from './cache-store.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerServices } from './job-runner.ts';
import type { Waiting } from './outbox.ts';
import { unlessStoreAway } from './retry.ts';
import type { Ended, Left } from './sandbox/types.ts';
import { storeBlob, TooLargeError } from './transfers.ts';

/**
 * The cache of a suite during one build. Its layers lie below what the build writes, so that restoring it costs a few
 * mounts. What a passed build has changed at the suite's paths is taken from its upper directory by a rename, and is the
 * next layer.
 */
export interface SuiteCache extends AsyncDisposable {
  /** The layers for the workspace and the home, the lowest first. */
  workspace: string[];
  home: string[];
  /** To be called before the files of the run go. */
  take(left: Left, ended: Ended): Promise<void>;
  /** Stores what was taken, or leaves it to the outbox. Returns the layers of the cache from now on; undefined where there is nothing to keep. */
  save(): Promise<CacheLayer[] | undefined>;
}

export interface CacheTask {
  id: string;
  project: string;
  checkout: string;
  say: (text: string) => Promise<void>;
  /** Takes what the server cannot store at the moment. */
  waiting?: Pick<Waiting, 'isStuck' | 'addLayer' | 'hasLayer'> | undefined;
  signal: AbortSignal;
}

/** Changes of up to this size never make a cache be packed anew as a whole. */
const smallBytes = 16 * 1024 * 1024;

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
  const { taken, layers } = await restore(services, order, task);
  let making: Making | undefined;
  let isToBeSaved = false;
  return {
    workspace: taken.trees.map((tree) => join(tree, 'workspace')),
    home: taken.trees.map((tree) => join(tree, 'home')),
    async take(left, { step, exitStatus, reason }) {
      const hasFailed = step === 'command' && exitStatus !== null && order.savesFailed === true;
      if (order.savesAs === undefined || reason !== null || (exitStatus !== 0 && !hasFailed)) return;
      // Mostly nothing has changed: then looking is all it costs.
      const found = await Promise.all(places.map(({ root, path }) => left.changed(root, path)));
      isToBeSaved = true;
      if (!found.some((what) => what === 'kept' || (what === 'gone' && layers.length > 0))) return;
      making = await services.caches.begin();
      for (const { root, path } of places) await left.keep(root, path, making.tree);
    },
    async save() {
      if (order.savesAs === undefined || !isToBeSaved) return undefined;
      if (!making) {
        if (layers.length > 0) await task.say('The cache is unchanged.\n');
        return layers.length > 0 ? layers : undefined;
      }
      try {
        const saved = await store(services, { name: order.savesAs, most: order.mostBytes }, task, {
          making,
          layers,
          trees: taken.trees,
        });
        if (saved) await task.say(task.waiting?.hasLayer() ? waits : `Saved the cache (${inWords(sizeOf(saved))}).\n`);
        return saved;
      } catch (error) {
        task.signal.throwIfAborted();
        services.log(`a cache was not saved: ${messageOf(error)}`);
        await task.say(`The cache is not saved: ${whyNot(error, order)}.\n`);
        return undefined;
      }
    },
    async [Symbol.asyncDispose]() {
      taken[Symbol.dispose]();
      await making?.[Symbol.asyncDispose]();
    },
  };
}

/** A build without its cache is slower, and works. */
async function restore(
  { caches, log }: RunnerServices,
  { found }: CacheOrder,
  { project, say, signal }: CacheTask,
): Promise<{ taken: TakenLayers; layers: CacheLayer[] }> {
  const nothing = { taken: { trees: [], [Symbol.dispose]: () => {} }, layers: [] };
  if (!found) {
    await say('There is no cache yet.\n');
    return nothing;
  }
  const { branch, layers } = found;
  const named = `the cache of ${branch} (${inWords(sizeOf(layers))})`;
  if (!caches.has(project, layers)) await say(`Fetching ${named}.\n`);
  try {
    const taken = await caches.take(project, layers, signal);
    await say(`Restored ${named}.\n`);
    return { taken, layers };
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache was not restored: ${messageOf(error)}`);
    const why = isNoSpace(error) ? 'the disk of the runner is full' : 'it could not be fetched';
    await say(`The build begins without ${named}: ${why}.\n`);
    return nothing;
  }
}

interface Changes {
  making: Making;
  /** The layers below, and their trees on this machine. */
  layers: CacheLayer[];
  trees: readonly string[];
}

/** Packs what has changed, or everything where that is hardly more, and stores it on the server and here. */
async function store(
  services: RunnerServices,
  { name, most }: { name: string; most: number },
  { id, project, waiting, signal }: CacheTask,
  { making, layers, trees }: Changes,
): Promise<CacheLayer[] | undefined> {
  const { sandboxes, caches } = services;
  const packing = { id: `${id}-cache`, sandboxes, signal };
  const { folder, tree } = making;
  const into = join(folder, 'packed');
  await mkdir(into, { mode: 0o755 });
  const room = roomFor(layers, most);
  const adding = room > 0 ? packLayer(packing, { tree, below: trees, into, most }) : Promise.resolve(Infinity);
  const added = await adding.catch((error: unknown) => {
    if (error instanceof TooLargeError && layers.length > 0) return Infinity;
    throw error;
  });
  if (layers.length > 0 && added > room) {
    const whole = await packAsOne(services, { id, project, name, most, waiting, signal }, folder, [...trees, tree]);
    return whole && [whole];
  }
  const digest = await send(services, { id, waiting, signal }, packedIn(into));
  if (digest === undefined) return undefined; // the claim is lost, and the build with it
  const layer = { name, digest, bytes: added };
  if (!waiting?.hasLayer()) await keepHere(services, signal, () => caches.place(project, layer, making));
  return [...layers, layer];
}

const waits = 'The cache waits on the runner, because the server cannot store it now.\n';

/** Stores a packed layer on the server; while that cannot store it, it goes to the outbox. Returns its digest. */
async function send(
  { link }: Pick<RunnerServices, 'link'>,
  { id, waiting, signal }: Pick<CacheTask, 'id' | 'waiting' | 'signal'>,
  packed: string,
): Promise<string | undefined> {
  if (waiting?.isStuck()) return waiting.addLayer(packed);
  try {
    return await storeBlob(link, id, packed, signal, unlessStoreAway);
  } catch (error) {
    if (!(error instanceof StoreAwayError) || !waiting) throw error;
    return waiting.addLayer(packed);
  }
}

export interface AsOne extends Pick<CacheTask, 'id' | 'project' | 'waiting' | 'signal'> {
  name: string;
  most: number;
}

/** Packs what these layers show together as one layer, in a folder, and stores it on the server and here. */
export async function packAsOne(
  services: Pick<RunnerServices, 'sandboxes' | 'link' | 'caches' | 'log'>,
  { id, project, name, most, waiting, signal }: AsOne,
  folder: string,
  layers: readonly string[],
): Promise<CacheLayer | undefined> {
  const { sandboxes, caches } = services;
  const packing = { id: `${id}-cache`, sandboxes, signal };
  const [into, scratch] = [join(folder, 'whole'), join(folder, 'scratch')];
  for (const path of [into, scratch, ...parts.map((part) => join(scratch, part))]) await mkdir(path, { mode: 0o755 });
  const bytes = await packWhole(packing, { layers, into, scratch, most });
  const digest = await send(services, { id, waiting, signal }, packedIn(into));
  if (digest === undefined) return undefined; // the claim is lost, and the work with it
  const layer = { name, digest, bytes };
  if (waiting?.hasLayer()) return layer;
  await keepHere(services, signal, async () => {
    await using whole = await caches.begin();
    await unpackLayer(packing, { folder: into, below: [], tree: whole.tree });
    await caches.place(project, layer, whole);
  });
  return layer;
}

/** The server has the layer. If it cannot be kept here, the next build fetches it. */
async function keepHere(
  { log }: Pick<RunnerServices, 'log'>,
  signal: AbortSignal,
  place: () => Promise<void>,
): Promise<void> {
  try {
    await place();
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache is not kept on this machine: ${messageOf(error)}`);
  }
}

/**
 * How large one more layer may be: all layers together take at most about twice the room of the lowest, so that what is
 * fetched is not mostly out of date. Else everything is packed anew, as one layer.
 */
function roomFor(layers: readonly CacheLayer[], all: number): number {
  const [lowest] = layers;
  if (!lowest) return all;
  if (layers.length >= most.cacheLayers) return 0;
  const above = sizeOf(layers) - lowest.bytes;
  return Math.min(Math.max(lowest.bytes, smallBytes) - above, all - sizeOf(layers));
}

function sizeOf(layers: readonly CacheLayer[]): number {
  return layers.reduce((sum, { bytes }) => sum + bytes, 0);
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
