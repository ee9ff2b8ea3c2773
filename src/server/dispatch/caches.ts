import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, CacheRow, ProjectRow, SuiteRow } from '../db/schema.ts';
import { moveCache, saveCache, useCache, type CacheKey } from '../outputs/caches.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import type { CacheOrder, FoundCache, SavedCache } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { addLine } from '../streams/logs.ts';
import type { JobContext } from './job-handler.ts';

export type CachedBuild = Pick<BuildRow, 'id' | 'project_id' | 'suite_id' | 'suite_name' | 'variant'> &
  Pick<BuildRequestRow, 'branch' | 'from_fork' | 'config_digest'> &
  Pick<ProjectRow, 'default_branch'> &
  Pick<SuiteRow, 'cache' | 'cache_save'>;

/** Nothing if the suite caches nothing. */
export function cachePart(
  { cacheBytes: mostBytes }: Pick<JobContext, 'cacheBytes'>,
  { cache }: Pick<CachedBuild, 'cache'>,
): { cache?: Pick<CacheOrder, 'paths' | 'mostBytes'> } {
  const paths = JSON.parse(cache) as string[];
  return paths.length === 0 || mostBytes === 0 ? {} : { cache: { paths, mostBytes } };
}

/** Undefined if the suite caches nothing. */
export async function cacheOrder(context: JobContext, build: CachedBuild): Promise<CacheOrder | undefined> {
  const { cache } = cachePart(context, build);
  if (!cache) return undefined;
  const found = await useCache(context, keyOf(build), build.default_branch);
  return {
    ...cache,
    ...(found && { found: foundIn(found) }),
    ...(mayWrite(build) && { savesAs: String(build.id) }),
    ...(build.cache_save === 'always' && { savesFailed: true }),
  };
}

interface Leaving {
  buildId: bigint;
  stored: Pick<ClaimedJob, 'stored_blob' | 'stored_bytes'>;
  state?: string;
  /** A cache that arrives after the build does not replace a newer build's cache. */
  isLate?: boolean;
}

/**
 * The saved tree is the blob stored under the claim. If it is instead the cache that the build began with, that cache
 * moves to the build's commit.
 */
export async function keepCache(
  context: JobContext,
  { buildId, stored, state, isLate = false }: Leaving,
  { digest, began }: SavedCache,
): Promise<void> {
  const build = await cachedBuild(context.trx, buildId);
  if (!build || !mayWrite(build) || !isSavedBy(build, state ?? build.build_state)) return;
  const [key, { sha }] = [keyOf(build), build];
  const before = began === undefined ? undefined : BigInt(began);
  const mostBytes = BigInt(context.cacheBytes);
  // A runner cannot choose a tree. Otherwise it could name another account's blob.
  if (digest !== stored.stored_blob) {
    if (before !== undefined)
      await moveCache(context, key, build.default_branch, { sha, digest, began: before, mostBytes });
    return;
  }
  const isSaved = await saveCache(context, key, {
    build_id: build.id,
    sha,
    digest,
    size: stored.stored_bytes ?? 0n,
    began: before,
    mostBytes,
    isLate,
  });
  if (!isSaved) await addLine(context.db, context.trx, build.id, notSaved);
}

const notSaved =
  'The cache is not stored: during the build, its cache was deleted or the suite’s cache paths were changed.';

export async function writesCache(db: Queries, buildId: bigint): Promise<boolean> {
  const build = await cachedBuild(db, buildId);
  return build !== undefined && build.cache !== '[]' && mayWrite(build);
}

async function cachedBuild(
  db: Queries,
  buildId: bigint,
): Promise<(CachedBuild & Pick<BuildRow, 'build_state'> & { sha: string }) | undefined> {
  const build = await db
    .selectFrom('builds')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select([
      'builds.id',
      'builds.project_id',
      'builds.suite_id',
      'builds.suite_name',
      'builds.variant',
      'builds.build_state',
      'builds.build_request_id',
    ])
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .select(['build_requests.from_fork', 'build_requests.branch', 'projects.default_branch', 'commits.ref as sha'])
    .select('build_requests.config_digest')
    .where('builds.id', '=', buildId)
    .executeTakeFirst();
  const suite = build && (await settingsOf(db, build));
  return suite && { ...build, cache: suite.cache, cache_save: suite.cache_save };
}

/** Builds of forks only read caches. A build without a branch has no cache of its own. */
export function mayWrite({ from_fork: fromFork, branch }: Pick<CachedBuild, 'from_fork' | 'branch'>): boolean {
  return fromFork === 0 && branch !== '';
}

function isSavedBy({ cache_save: when }: Pick<CachedBuild, 'cache_save'>, state: string): boolean {
  return state === 'passed' || (state === 'failed' && when === 'always');
}

function keyOf(build: CachedBuild): CacheKey {
  const { project_id: projectId, suite_id: suiteId, suite_name: suiteName, variant, branch, cache: paths } = build;
  return { projectId, suiteId, suiteName, variant, branch, paths, isOfFile: build.config_digest !== '' };
}

function foundIn({ id, branch, build_id: by, sha, digest, size }: CacheRow): FoundCache {
  return { id: String(id), branch, sha, name: String(by), digest, bytes: Number(size) };
}
