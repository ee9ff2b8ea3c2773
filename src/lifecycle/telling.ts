import type { Database, Transaction } from '../db/open.ts';
import type { DeliveryRow, ProjectRow } from '../db/schema.ts';
import { exactJson } from '../lib/exact-json.ts';
import type { IdSource } from '../lib/ids.ts';
import { timestamp } from '../lib/timestamps.ts';
import { ensureErrands } from '../queue/errands.ts';
import { buildView } from '../views/build.ts';
import { commitView } from '../views/commit.ts';
import { dependencyView, relatedTo } from '../views/dependency.ts';
import { projectView } from '../views/project.ts';
import { deliveryMachine } from './states.ts';

/**
 * Turns events into deliveries: what a receiver is to be told is written down in the transaction of the change it tells
 * of, in the form that the API shows, so it can neither be lost nor change on its way.
 *
 * Positions are given out under the lock of the notification's row, so the order of a notification's deliveries is that
 * of the commits, whichever server made them.
 */
interface Teller {
  db: Database;
  trx: Transaction;
  ids: IdSource;
}

type Told = Pick<ProjectRow, 'id' | 'owner_id' | 'name' | 'description' | 'repository_url' | 'build_state'>;

/** A notification's place in line for one piece of news. */
interface Place {
  id: bigint;
  project_id: bigint;
  last_position: bigint;
}

/** Tells those who asked about a project's builds of one that has changed, or of a commit. */
export async function tellOfBuilds(
  teller: Teller,
  { projectId, subjectId, type, state }: { projectId: bigint; subjectId: bigint; type: string; state: string },
): Promise<void> {
  if (type !== 'build' && type !== 'commit') return;
  const places = await teller.trx
    .updateTable('notifications')
    .set((of) => ({ last_position: of('last_position', '+', 1n) }))
    .where('project_id', '=', projectId)
    .where('notifiable_type', '=', 'build')
    .returning(['id', 'project_id', 'last_position'])
    .execute();
  if (places.length === 0) return;
  const view = type === 'build' ? await buildNow(teller, subjectId) : await commitNow(teller, subjectId);
  // It may have moved on since, in the same transaction.
  await write(teller, places, `${type}.${state}`, { [type]: { ...view, build_state: state } });
}

/**
 * Tells of a dependency in the state it is in now: the owner's projects that asked, and those of others whose suites use
 * it.
 */
export async function tellOfDependency(teller: Teller, dependencyId: bigint): Promise<void> {
  const { trx } = teller;
  const dependencies = trx.selectFrom('dependencies').selectAll().where('id', '=', dependencyId);
  const dependency = await dependencies.executeTakeFirstOrThrow();
  const users = trx
    .selectFrom('suite_dependencies')
    .innerJoin('suites', 'suites.id', 'suite_dependencies.suite_id')
    .select('suites.project_id as id')
    .where('suite_dependencies.dependency_id', '=', dependencyId);
  const concerned = trx.selectFrom('projects').select('id').where('owner_id', '=', dependency.owner_id).union(users);
  const notifications = await trx
    .selectFrom('notifications')
    .select('id')
    .where('project_id', 'in', concerned)
    .where('notifiable_type', '=', 'dependency')
    .orderBy('id')
    .execute();
  const places: Place[] = [];
  // One after the other and always in this order: two dependencies that change at once must not wait for each other.
  for (const { id } of notifications) places.push(...(await takePlace(teller, id)));
  if (places.length === 0) return;
  const view = dependencyView(dependency, await relatedTo(trx, [dependencyId]));
  await write(teller, places, `dependency.${dependency.state}`, { dependency: view });
}

/** Tells the receiver of a new notification that it is one. */
export async function greet(teller: Teller, notificationId: bigint): Promise<void> {
  await write(teller, await takePlace(teller, notificationId), 'ping', {});
}

/** The next place in a notification's line; none when the notification is gone. */
export async function takePlace({ trx }: Pick<Teller, 'trx'>, notificationId: bigint): Promise<Place[]> {
  return trx
    .updateTable('notifications')
    .set((of) => ({ last_position: of('last_position', '+', 1n) }))
    .where('id', '=', notificationId)
    .returning(['id', 'project_id', 'last_position'])
    .execute();
}

async function write({ db, trx, ids }: Teller, places: Place[], type: string, what: object): Promise<void> {
  const projects = await projectsOf(trx, places);
  const now = Date.now();
  const written = places.flatMap((place) => {
    const project = projects.get(place.project_id);
    return project ? [{ project, place, id: ids.next() }] : [];
  });
  const deliveries = written.map(({ project, place, id }): DeliveryRow => {
    // Whoever receives it acts for the owner. The key is sealed in the project's row, and added on the way out.
    const told = { id: String(id), type, created_at: timestamp(now), project: projectView(project, true), ...what };
    return {
      id,
      notification_id: place.id,
      position: place.last_position,
      event_type: type,
      payload: exactJson(told),
      state: deliveryMachine.initial,
      created_at: BigInt(now),
      since: BigInt(now),
    };
  });
  await trx.insertInto('deliveries').values(deliveries).execute();
  const errands = written.map(({ project, place }) => ({ subjectId: place.id, accountId: project.owner_id }));
  await ensureErrands(db, trx, ids, errands);
}

async function projectsOf(trx: Transaction, places: Place[]): Promise<Map<bigint, Told>> {
  const ids = [...new Set(places.map((place) => place.project_id))];
  const projects = await trx
    .selectFrom('projects')
    .select(['id', 'owner_id', 'name', 'description', 'repository_url', 'build_state'])
    .where('id', 'in', ids)
    .execute();
  return new Map(projects.map((project) => [project.id, project]));
}

async function buildNow({ trx }: Teller, id: bigint) {
  return buildView(await trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirstOrThrow());
}

async function commitNow({ trx }: Teller, id: bigint) {
  return commitView(await trx.selectFrom('commits').selectAll().where('id', '=', id).executeTakeFirstOrThrow());
}
