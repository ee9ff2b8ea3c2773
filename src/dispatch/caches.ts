import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, ProjectRow, SuiteRow } from '../db/schema.ts';
import { saveCache, useCache, type CacheLayer as StoredLayer, type CachePlace } from '../lifecycle/caches.ts';
import type { CacheLayer, CacheOrder } from '../protocol/index.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import { addLine } from '../streams/logs.ts';
import type { JobContext } from './job-handler.ts';

/** The facts about a build that decide which cache it reads and writes. */
export type CachedBuild = Pick<BuildRow, 'id' | 'project_id' | 'suite_id' | 'variant'> &
  Pick<BuildRequestRow, 'branch' | 'from_fork'> &
  Pick<ProjectRow, 'default_branch'> &
  Pick<SuiteRow, 'cache' | 'cache_save'>;

/** What an order says about the cache of its suite; undefined where the suite keeps nothing. */
export async function cacheOrder(context: JobContext, build: CachedBuild): Promise<CacheOrder | undefined> {
  const paths = JSON.parse(build.cache) as string[];
  if (paths.length === 0 || context.cacheBytes === 0) return undefined;
  const found = await useCache(context, placeOf(build), build.default_branch);
  return {
    paths,
    ...(found && { found: { branch: found.branch, layers: found.layers.map(layerAsSent) } }),
    ...(mayWrite(build) && { savesAs: String(build.id) }),
    ...(build.cache_save === 'always' && { savesFailed: true }),
    mostBytes: context.cacheBytes,
  };
}

/** A build that is over, and what its runner has stored under its claim. */
interface Leaving {
  buildId: bigint;
  stored: Pick<ClaimedJob, 'stored_blob' | 'stored_bytes'>;
  accountId: bigint;
  /** How it ends, where that is not written yet. */
  state?: string;
  /** It comes after the build: a cache that a newer build has saved meanwhile stays. */
  isLate?: boolean;
}

/** A build left a cache. Its newest layer must be the blob that was stored under the claim. */
export async function keepCache(
  context: JobContext,
  { buildId, stored, accountId, state, isLate = false }: Leaving,
  sent: readonly CacheLayer[],
): Promise<void> {
  const build = await cachedBuild(context.trx, buildId);
  if (!build || sent.length === 0 || !mayWrite(build)) return;
  if (!isSavedBy(build, state ?? build.build_state)) return;
  const { stored_blob: digest, stored_bytes: bytes } = stored;
  const isSaved = await saveCache(context, placeOf(build), {
    layers: sent.map((layer) => ({ build_id: BigInt(layer.name), digest: layer.digest })),
    newest: { build_id: build.id, digest: digest ?? '', bytes: bytes ?? 0n },
    mostBytes: BigInt(context.cacheBytes),
    accountId,
    isLate,
  });
  if (!isSaved) await addLine(context.db, context.trx, build.id, notKept);
}

const notKept =
  'The cache is not kept: while the build ran, the one it began with was deleted, or what the suite keeps was changed.';

/** Whether a build may store a layer: its suite keeps something, and it may write. */
export async function writesCache(db: Queries, buildId: bigint): Promise<boolean> {
  const build = await cachedBuild(db, buildId);
  return build !== undefined && build.cache !== '[]' && mayWrite(build);
}

async function cachedBuild(
  db: Queries,
  buildId: bigint,
): Promise<(CachedBuild & Pick<BuildRow, 'build_state'>) | undefined> {
  return db
    .selectFrom('builds')
    .innerJoin('suites', 'suites.id', 'builds.suite_id')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select([
      'builds.id',
      'builds.project_id',
      'builds.suite_id',
      'builds.variant',
      'builds.build_state',
      'suites.cache',
      'suites.cache_save',
    ])
    .select(['build_requests.from_fork', 'build_requests.branch', 'projects.default_branch'])
    .where('builds.id', '=', buildId)
    .executeTakeFirst();
}

/** Builds of forks read caches but never write them. A build of no branch has none of its own. */
function mayWrite({ from_fork: fromFork, branch }: Pick<CachedBuild, 'from_fork' | 'branch'>): boolean {
  return fromFork === 0 && branch !== '';
}

/** Whether a build that ends so saves its cache: a cancelled one never does. */
function isSavedBy({ cache_save: when }: Pick<CachedBuild, 'cache_save'>, state: string): boolean {
  return state === 'passed' || (state === 'failed' && when === 'always');
}

function placeOf(build: CachedBuild): CachePlace {
  const { project_id: projectId, suite_id: suiteId, variant, branch, cache: paths } = build;
  return { projectId, suiteId, variant, branch, paths };
}

export function layerAsSent({ build_id: by, digest, bytes }: StoredLayer): CacheLayer {
  return { name: String(by), digest, bytes: Number(bytes) };
}
