import type { Queries } from '../db/open.ts';
import type { ServiceDataRow } from '../db/schema.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/**
 * What services held after they were filled, for later builds that would fill them in the same way. As with caches, only
 * builds of a branch write it, and a build reads what its own branch has, or else the repository's default branch. The
 * files stay on the runner that made them: only that runner can tell whether a build would make the same.
 *
 * A transaction that adds or deletes some first holds the project's number, as for caches.
 */

/** A build that may begin with what others left. */
export interface ReadingBuild {
  project_id: bigint;
  branch: string;
  default_branch: string;
  from_fork: number;
}

/** As many an order names for one service, of all runners. */
const mostNamed = 100;
/** So many a project has, and so long they stay unused. */
const mostKept = 1000;
const longestUnused = 30n * 24n * 60n * 60n * 1000n;

/** Those of the build's own branch come first. */
export async function findServiceData(
  db: Queries,
  { project_id: project, branch, default_branch: shared, from_fork: fromFork }: ReadingBuild,
  service: string,
): Promise<ServiceDataRow[]> {
  const found = await db
    .selectFrom('service_data')
    .selectAll()
    .where('project_id', '=', project)
    .where('service', '=', service)
    .where('branch', 'in', [branch, shared])
    .where('branch', '<>', '')
    // A fork's author may have the build say everything that it finds.
    .$if(fromFork === 1, (query) => query.where('has_secrets', '=', 0))
    .orderBy('last_used_at', 'desc')
    .orderBy('id', 'desc')
    .limit(mostNamed)
    .execute();
  return [...found.filter((one) => one.branch === branch), ...found.filter((one) => one.branch !== branch)];
}

type Made = Omit<ServiceDataRow, 'id' | 'created_at' | 'last_used_at'>;

/** What a build has made takes the place of what its branch had under the same digest. */
export async function saveServiceData({ db, trx, ids }: WriteContext, made: Made): Promise<void> {
  const { project_id: project, branch, service, made_of } = made;
  await db.holdRight(trx, 'caches', project);
  const ofProject = trx.deleteFrom('service_data').where('project_id', '=', project);
  await ofProject.where('branch', '=', branch).where('service', '=', service).where('made_of', '=', made_of).execute();
  const now = BigInt(Date.now());
  await ofProject.where('last_used_at', '<', now - longestUnused).execute();
  const row = { ...made, id: ids.next(), created_at: now, last_used_at: now };
  await trx.insertInto('service_data').values(row).execute();
  const kept = trx.selectFrom('service_data').select('id').where('project_id', '=', project);
  const inOrder = kept.orderBy('last_used_at', 'desc').orderBy('id', 'desc');
  const leaving = (await inOrder.execute()).slice(mostKept).map(({ id }) => id);
  if (leaving.length > 0) await trx.deleteFrom('service_data').where('id', 'in', leaving).execute();
}

/** Data that were deleted meanwhile stay deleted. What another build notes, or replaces, at this moment is passed over. */
export async function noteUseOfServiceData({ db, trx }: WriteContext, project: bigint, tree: bigint): Promise<void> {
  const named = trx.selectFrom('service_data').select('id').where('project_id', '=', project).where('tree', '=', tree);
  const free = (await db.skipLocked(named, 'service_data').execute()).map(({ id }) => id);
  if (free.length === 0) return;
  const used = trx.updateTable('service_data').set({ last_used_at: BigInt(Date.now()) });
  await used.where('id', 'in', free).execute();
}

/** Which of these trees are still somebody's data, each as its project and its name. */
export async function dataIn(db: Queries, trees: readonly bigint[]): Promise<Set<string>> {
  if (trees.length === 0) return new Set();
  const found = db.selectFrom('service_data').select(['project_id', 'tree']).where('tree', 'in', trees);
  return new Set((await found.execute()).map(({ project_id: project, tree }) => `${project} ${tree}`));
}
