import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { CacheLayerRow, CacheRow } from '../db/schema.ts';
import { enqueue } from '../queue/queue.ts';
import type { WriteContext } from './write-context.ts';

/**
 * A cache gets a layer from every build that changes it, and one with many layers takes long to fetch and to mount. So
 * when it has several and rested for a while, a runner packs them as one. Only where builds follow each other without a
 * rest does a build itself have to do that, at the largest number of layers.
 */

/** From so many layers on a cache is folded. */
export const foldsFrom = 4;
/** A cache that was not saved for so long rests. Waiting builds of its account come before the work in any case. */
const restMs = 60_000;

/** Each save makes a new cache, so this comes to nothing when the cache is saved again before. */
export async function foldLater({ db, trx, ids }: WriteContext, cacheId: bigint, accountId: bigint): Promise<void> {
  await enqueue(db, trx, ids, { kind: 'fold_cache', subjectId: cacheId, accountId, runAfter: Date.now() + restMs });
}

type CacheLayer = Omit<CacheLayerRow, 'cache_id' | 'position'>;

export interface RestingCache extends Pick<CacheRow, 'id' | 'project_id'> {
  /** The lowest first. */
  layers: CacheLayer[];
}

/**
 * A cache that can be folded; undefined where it is gone, or a build of its suite runs: that one has begun with its
 * layers, and adds to them.
 */
export async function restingCache(db: Queries, id: bigint): Promise<RestingCache | undefined> {
  const found = await db
    .selectFrom('caches')
    .select(['caches.id', 'caches.project_id'])
    .where('caches.id', '=', id)
    .where((where) =>
      where.not(
        where.exists(
          // By the jobs that somebody has, because those are few.
          where
            .selectFrom('jobs')
            .innerJoin('builds', 'builds.id', 'jobs.subject_id')
            .select('builds.id')
            .where('jobs.claim', 'is not', null)
            .whereRef('builds.suite_id', '=', 'caches.suite_id')
            .where('builds.build_state', '=', sql.lit('running')),
        ),
      ),
    )
    .executeTakeFirst();
  if (!found) return undefined;
  const layers = await db
    .selectFrom('cache_layers')
    .select(['build_id', 'digest', 'bytes'])
    .where('cache_id', '=', id)
    .orderBy('position')
    .execute();
  return layers.length < foldsFrom ? undefined : { ...found, layers };
}

/** One layer takes the place of all layers of a cache. */
export async function putAsOne({ db, trx }: WriteContext, id: bigint, layer: CacheLayer): Promise<void> {
  const before = await trx.selectFrom('caches').select('project_id').where('id', '=', id).executeTakeFirst();
  if (!before) return;
  await db.holdNumber(trx, before.project_id);
  if (!(await restingCache(trx, id))) return;
  await trx.deleteFrom('cache_layers').where('cache_id', '=', id).execute();
  await trx
    .insertInto('cache_layers')
    .values({ cache_id: id, position: 0, ...layer })
    .execute();
  await trx.updateTable('caches').set({ size: layer.bytes }).where('id', '=', id).execute();
}
