import type { Queries } from '../db/open.ts';
import type { CacheRow } from '../db/schema.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/**
 * Files that a build of a suite saves for the next one, by suite, variant and branch. Only builds of the branch write
 * its cache. A build reads its branch's cache, or else the default branch's. To add or delete caches, first lock the
 * right to the project's caches. Otherwise transactions that make room at the same time could deadlock.
 */

export interface CacheKey {
  projectId: bigint;
  suiteId: bigint | null;
  suiteName: string;
  variant: string;
  branch: string;
  paths: string;
  isOfFile: boolean;
}

/** Limit of caches in a project, even if they are small. */
const mostCaches = 1000;

export async function useCache(
  { trx }: WriteContext,
  key: CacheKey,
  defaultBranch: string,
): Promise<CacheRow | undefined> {
  const cache = await findCache(trx, key, defaultBranch);
  if (!cache) return undefined;
  const used = { last_used_at: BigInt(Date.now()) };
  await trx.updateTable('caches').set(used).where('id', '=', cache.id).execute();
  return cache;
}

async function findCache(
  db: Queries,
  { projectId, suiteName, variant, branch, paths }: CacheKey,
  defaultBranch: string,
): Promise<CacheRow | undefined> {
  const found = await db
    .selectFrom('caches')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('suite_name', '=', suiteName)
    .where('variant', '=', variant)
    .where('paths', '=', paths)
    .where('branch', 'in', [branch, defaultBranch])
    .execute();
  return found.find((one) => one.branch === branch) ?? found[0];
}

interface Saved extends Pick<CacheRow, 'build_id' | 'sha' | 'digest' | 'size'> {
  began: bigint | undefined;
  mostBytes: bigint;
  isLate: boolean;
}

/**
 * A cache keeps its id from save to save. So if the cache that the build began with was deleted, nothing is saved
 * (false).
 */
export async function saveCache(
  { db, trx, ids }: WriteContext,
  { projectId, suiteId, suiteName, variant, branch, paths, isOfFile }: CacheKey,
  { began, mostBytes, isLate, ...tree }: Saved,
): Promise<boolean> {
  await db.holdRight(trx, 'caches', projectId);
  const suite = trx.selectFrom('suites').select('id').where('id', '=', suiteId).where('cache', '=', paths);
  if ((!isOfFile && !(await suite.executeTakeFirst())) || tree.size > mostBytes) return false;
  const all = await trx
    .selectFrom('caches')
    .select(['id', 'suite_name', 'variant', 'branch', 'build_id', 'digest', 'size'])
    .where('project_id', '=', projectId)
    .orderBy('last_used_at', 'desc')
    .orderBy('id', 'desc')
    .execute();
  if (began !== undefined && !all.some(({ id }) => id === began)) return false;
  const there = all.find((one) => one.suite_name === suiteName && one.variant === variant && one.branch === branch);
  if (isLate && there && there.build_id > tree.build_id) return false;
  const now = BigInt(Date.now());
  const fields = { ...tree, paths, created_at: now, last_used_at: now };
  if (there) await trx.updateTable('caches').set(fields).where('id', '=', there.id).execute();
  else {
    const key = { id: ids.next(), project_id: projectId, suite_id: suiteId, suite_name: suiteName, variant, branch };
    await trx
      .insertInto('caches')
      .values({ ...key, ...fields })
      .execute();
  }
  let room = mostBytes - tree.size;
  const others = all.filter(({ id }) => id !== there?.id);
  // Least recently used first. A tree shared by several branches is stored once and counts once.
  const counted = new Set([tree.digest]);
  const firstDropped = others.findIndex(({ digest, size }, at) => {
    if (!counted.has(digest)) room -= size;
    counted.add(digest);
    return room < 0n || at + 1 >= mostCaches;
  });
  const leaving = firstDropped < 0 ? [] : others.slice(firstDropped).map(({ id }) => id);
  if (leaving.length > 0) await trx.deleteFrom('caches').where('id', 'in', leaving).execute();
  return true;
}

/**
 * For a build that left its cache unchanged: its branch's cache moves to the build's commit, unless it was replaced or
 * deleted.
 */
export async function moveCache(
  context: WriteContext,
  key: CacheKey,
  defaultBranch: string,
  { began, digest, ...moved }: Pick<CacheRow, 'sha' | 'digest'> & { began: bigint; mostBytes: bigint },
): Promise<void> {
  await context.db.holdRight(context.trx, 'caches', key.projectId);
  const found = await findCache(context.trx, key, defaultBranch);
  if (found?.id !== began || found.digest !== digest) return;
  const { build_id, size } = found; // runners know the tree by the build that made it
  await saveCache(context, key, { build_id, size, digest, began, ...moved, isLate: false });
}

export async function renameCaches(
  { db, trx }: WriteContext,
  { projectId, suiteId, name }: { projectId: bigint; suiteId: bigint; name: string },
): Promise<void> {
  await db.holdRight(trx, 'caches', projectId);
  // A branch's file may have a suite of the new name. Its caches would become the renamed suite's.
  await trx.deleteFrom('caches').where('project_id', '=', projectId).where('suite_name', '=', name).execute();
  await trx.updateTable('caches').set({ suite_name: name }).where('suite_id', '=', suiteId).execute();
}

/** Without `id`, deletes all caches and service data of the project. */
export async function deleteCaches({ db, trx }: WriteContext, projectId: bigint, id?: bigint): Promise<void> {
  await db.holdRight(trx, 'caches', projectId);
  for (const table of ['caches', 'service_data'] as const) {
    const all = trx.deleteFrom(table).where('project_id', '=', projectId);
    await (id === undefined ? all : all.where('id', '=', id)).execute();
  }
}

/** Builds with a remaining cache, each as the text `PROJECT BUILD`. */
export async function savedBy(db: Queries, builds: readonly bigint[]): Promise<Set<string>> {
  if (builds.length === 0) return new Set();
  const found = db.selectFrom('caches').select(['project_id', 'build_id']).where('build_id', 'in', builds);
  return new Set((await found.execute()).map(({ project_id: project, build_id: build }) => `${project} ${build}`));
}
