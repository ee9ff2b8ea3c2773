import type { Queries } from '../db/open.ts';
import { insertRows } from '../db/insert.ts';
import type { CacheLayerRow, CacheRow } from '../db/schema.ts';
import { foldLater, foldsFrom } from './cache-folding.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Caches: what builds of a suite left for the next one. Each belongs to one suite, variant and branch, and is
 * written by builds of that branch alone. A build reads the cache of its own branch, or else that of the repository's
 * default branch.
 *
 * Whoever changes which caches a project has first holds the project's number, so that two who make room at the same
 * time do not wait for each other.
 */

/** The builds that share a cache. */
export interface CachePlace {
  projectId: bigint;
  suiteId: bigint;
  variant: string;
  branch: string;
  /** The suite's paths, as stored. */
  paths: string;
}

export type CacheLayer = Omit<CacheLayerRow, 'cache_id' | 'position'>;

/** More caches than this are not kept, however small they are. */
const mostCaches = 1000;

type Found = Pick<CacheRow, 'id' | 'branch' | 'size'> & CacheLayer;

const findLayers = (
  db: Queries,
  { suiteId, variant, paths, branch, fallback }: Omit<CachePlace, 'projectId'> & { fallback: string },
): Promise<Found[]> =>
  db
    .selectFrom('caches')
    .innerJoin('cache_layers', 'cache_layers.cache_id', 'caches.id')
    .select(['caches.id', 'caches.branch', 'caches.size'])
    .select(['cache_layers.build_id', 'cache_layers.digest', 'cache_layers.bytes'])
    .where('caches.suite_id', '=', suiteId)
    .where('caches.variant', '=', variant)
    .where('caches.paths', '=', paths)
    .where((where) => where.or([where('caches.branch', '=', branch), where('caches.branch', '=', fallback)]))
    .orderBy('cache_layers.position')
    .execute();

/** The cache for a build, with its layers, the lowest first; undefined where there is none. It counts as used. */
export async function useCache(
  { trx }: WriteContext,
  place: CachePlace,
  defaultBranch: string,
): Promise<{ branch: string; size: bigint; layers: CacheLayer[] } | undefined> {
  const { projectId: _, ...key } = place;
  const found = await findLayers(trx, { ...key, fallback: defaultBranch });
  const chosen = [place.branch, defaultBranch].find((branch) => found.some((layer) => layer.branch === branch));
  const layers = found.filter(({ branch }) => branch === chosen);
  const [first] = layers;
  if (!first) return undefined;
  const used = { last_used_at: BigInt(Date.now()) };
  await trx.updateTable('caches').set(used).where('id', '=', first.id).execute();
  return { branch: first.branch, size: first.size, layers };
}

/** A layer as a runner names it; its size is not taken from there. */
type LayerName = Omit<CacheLayer, 'bytes'>;

interface Saved {
  layers: readonly LayerName[];
  /** What the build itself has stored. */
  newest: CacheLayer;
  mostBytes: bigint;
  /** The account whose runners do what follows. */
  accountId: bigint;
  /** Whether one that a newer build has saved stays instead. */
  isLate: boolean;
}

/**
 * Saves a cache, in the place of the one that is there. Of the layers only the last one is new; those below must still
 * belong to a cache of the project, because somebody may have deleted it since. Makes room for it within `mostBytes`.
 * Answers whether it was saved.
 */
export async function saveCache(
  context: WriteContext,
  place: CachePlace,
  { layers: named, newest, mostBytes, accountId, isLate }: Saved,
): Promise<boolean> {
  const { db, trx, ids } = context;
  const { projectId, suiteId, variant, branch, paths } = place;
  if (named.length === 0) return false;
  await db.holdNumber(trx, projectId);
  const suite = trx.selectFrom('suites').select('id').where('id', '=', suiteId).where('cache', '=', paths);
  if (!(await suite.executeTakeFirst())) return false;
  const { projectId: _, ...key } = place;
  const there = await findLayers(trx, { ...key, fallback: branch });
  if (there.length === named.length && named.every(({ build_id: by }, at) => there[at]?.build_id === by)) return true;
  if (isLate && there.some(({ build_id: by }) => by > newest.build_id)) return false;
  const layers = await measured(trx, projectId, named, newest);
  const size = layers?.reduce((sum, { bytes }) => sum + bytes, 0n) ?? 0n;
  if (!layers || size > mostBytes) return false;
  const now = BigInt(Date.now());
  await trx
    .deleteFrom('caches')
    .where('suite_id', '=', suiteId)
    .where('variant', '=', variant)
    .where('branch', '=', branch)
    .execute();
  const id = ids.next();
  const cache = { id, project_id: projectId, suite_id: suiteId, variant, branch, paths, size };
  await trx
    .insertInto('caches')
    .values({ ...cache, created_at: now, last_used_at: now })
    .execute();
  await insertRows(
    trx,
    'cache_layers',
    layers.map((layer, position) => ({ cache_id: id, position, ...layer })),
  );
  await makeRoom(trx, projectId, id, mostBytes);
  if (layers.length >= foldsFrom) await foldLater(context, id, accountId);
  return true;
}

/**
 * The layers with their sizes, as they were counted when they were stored. Undefined where one of them is neither the
 * newest nor part of a cache of the project.
 */
async function measured(
  db: Queries,
  projectId: bigint,
  layers: readonly LayerName[],
  newest: CacheLayer,
): Promise<CacheLayer[] | undefined> {
  const kept = await db
    .selectFrom('cache_layers')
    .innerJoin('caches', 'caches.id', 'cache_layers.cache_id')
    .select(['cache_layers.build_id', 'cache_layers.digest', 'cache_layers.bytes'])
    .distinct()
    .where('caches.project_id', '=', projectId)
    .where(
      'cache_layers.build_id',
      'in',
      layers.map(({ build_id: build }) => build),
    )
    .execute();
  const known = [newest, ...kept.filter(({ build_id: build }) => build !== newest.build_id)];
  const found = layers.map(({ build_id: build, digest }) =>
    known.find((layer) => layer.build_id === build && layer.digest === digest),
  );
  return found.every((layer) => layer !== undefined) ? found : undefined;
}

/** Keeps the caches that were used last, as far as there is room. Layers that several caches share count once. */
async function makeRoom(db: Queries, projectId: bigint, saved: bigint, mostBytes: bigint): Promise<void> {
  const rows = await db
    .selectFrom('caches')
    .innerJoin('cache_layers', 'cache_layers.cache_id', 'caches.id')
    .select(['caches.id', 'cache_layers.build_id', 'cache_layers.bytes'])
    .where('caches.project_id', '=', projectId)
    .orderBy('caches.last_used_at', 'desc')
    .orderBy('caches.id', 'desc')
    .execute();
  const byCache = Map.groupBy(rows, ({ id }) => id);
  const inOrder = [saved, ...Array.from(byCache.keys()).filter((id) => id !== saved)];
  const counted = new Set<bigint>();
  let total = 0n;
  const kept = inOrder.findIndex((id, at) => {
    for (const { build_id: build, bytes } of byCache.get(id) ?? []) {
      if (!counted.has(build)) total += bytes;
      counted.add(build);
    }
    return total > mostBytes || at >= mostCaches;
  });
  if (kept >= 0) await db.deleteFrom('caches').where('id', 'in', inOrder.slice(kept)).execute();
}

/** Deletes the caches of a project, or one of them. */
export async function deleteCaches({ db, trx }: WriteContext, projectId: bigint, id?: bigint): Promise<void> {
  await db.holdNumber(trx, projectId);
  const all = trx.deleteFrom('caches').where('project_id', '=', projectId);
  await (id === undefined ? all : all.where('id', '=', id)).execute();
}

/** Of these layers, those that no cache of their project has any more, each as its project and its build. */
export async function goneLayers(
  db: Queries,
  layers: readonly { project: bigint; build: bigint }[],
): Promise<Set<string>> {
  const gone = new Set(layers.map(({ project, build }) => `${project} ${build}`));
  if (gone.size === 0) return gone;
  const builds = layers.map(({ build }) => build);
  const found = await db
    .selectFrom('cache_layers')
    .innerJoin('caches', 'caches.id', 'cache_layers.cache_id')
    .select(['caches.project_id', 'cache_layers.build_id'])
    .where('cache_layers.build_id', 'in', builds)
    .execute();
  for (const { project_id: project, build_id: build } of found) gone.delete(`${project} ${build}`);
  return gone;
}
