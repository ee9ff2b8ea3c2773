import type { Queries } from '../db/open.ts';
import type { ServiceDataRow } from '../db/schema.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/**
 * Data of filled services, for builds that would fill them in the same way. As with caches, only a branch's builds
 * write its data, and a build reads its branch's data, or else the default branch's. Only the runner that made the
 * files knows whether a build would make the same. To add or delete data, first lock the right to the project's caches.
 */

export interface ReadingBuild {
  project_id: bigint;
  branch: string;
  default_branch: string;
  from_fork: number;
}

const mostNamed = 100;
const mostKept = 1000;
const longestUnused = 30n * 24n * 60n * 60n * 1000n;

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
    // A fork's author may make the build print everything that it finds.
    .$if(fromFork === 1, (query) => query.where('has_secrets', '=', 0))
    .orderBy('last_used_at', 'desc')
    .orderBy('id', 'desc')
    .limit(mostNamed)
    .execute();
  return [...found.filter((one) => one.branch === branch), ...found.filter((one) => one.branch !== branch)];
}

type Made = Omit<ServiceDataRow, 'id' | 'created_at' | 'last_used_at'>;

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

/** Data deleted meanwhile stay deleted. Locked rows are skipped. */
export async function noteUseOfServiceData({ db, trx }: WriteContext, project: bigint, tree: bigint): Promise<void> {
  const named = trx.selectFrom('service_data').select('id').where('project_id', '=', project).where('tree', '=', tree);
  const free = (await db.skipLocked(named, 'service_data').execute()).map(({ id }) => id);
  if (free.length === 0) return;
  const used = trx.updateTable('service_data').set({ last_used_at: BigInt(Date.now()) });
  await used.where('id', 'in', free).execute();
}

/** Trees that are still stored, each as the text `PROJECT TREE`. */
export async function dataIn(db: Queries, trees: readonly bigint[]): Promise<Set<string>> {
  if (trees.length === 0) return new Set();
  const found = db.selectFrom('service_data').select(['project_id', 'tree']).where('tree', 'in', trees);
  return new Set((await found.execute()).map(({ project_id: project, tree }) => `${project} ${tree}`));
}
