import { ownersFor } from '../auth/organisations.ts';
import type { Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { dependencyFields, type CreatedDependency, type UploadedDependency } from '../../shared/records/dependency.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { dependencyView, relatedTo } from '../views/dependency.ts';
import { orNotFound, withIdString, type InAccount } from './common.ts';

/** Unlike other responses, this one has `id_ref` and no `id_str`. Its state is always `private`. */
export function createdView(dependency: DependencyRow): CreatedDependency {
  const { id } = dependency;
  return { id, id_ref: String(id), ...valuesIn(dependencyFields, dependency), marketplace_state: 'private' };
}

export function uploadedView(dependency: DependencyRow): UploadedDependency {
  const { id, archive_file_size, state } = dependency;
  return {
    ...withIdString('id', id),
    ...valuesIn(dependencyFields, dependency),
    archive_file_size,
    marketplace_state: state,
  };
}

export async function viewWithRelated(db: Queries, dependency: DependencyRow) {
  return dependencyView(dependency, await relatedTo(db, [dependency.id]));
}

/** Related dependencies are read in batches of this size, so other requests get their turn. */
const atOnce = 100;

export async function viewsWithRelated(db: Queries, dependencies: DependencyRow[]) {
  const views: ReturnType<typeof dependencyView>[] = [];
  for (let from = 0; from < dependencies.length; from += atOnce) {
    const some = dependencies.slice(from, from + atOnce);
    const ids = some.map(({ id }) => id);
    const related = Map.groupBy(await relatedTo(db, ids), ({ dependency_id: id }) => id);
    views.push(...some.map((dependency) => dependencyView(dependency, related.get(dependency.id) ?? [])));
  }
  return views;
}

/** True for a shared dependency of another account. Every caller who may attach it may also read it. */
export async function isSharedByOther({ db, caller, params }: InAccount<'dependency_id'>): Promise<boolean> {
  const shared = db.selectFrom('dependencies').select('id').where('shared', '=', 1);
  const named = shared.where('id', '=', params.dependency_id).where('owner_id', '<>', caller.id);
  return (await named.executeTakeFirst()) !== undefined;
}

export async function loadUsableDependency(
  call: InAccount<'dependency_id'>,
): Promise<{ account: bigint; dependency: DependencyRow }> {
  const query = call.db.selectFrom('dependencies').selectAll().where('id', '=', call.params.dependency_id);
  const usable = query.where((where) =>
    where.or([
      where('owner_id', '=', call.caller.id),
      where('owner_id', 'in', ownersFor(call.db, call.caller.id, 'viewer')),
      where('shared', '=', 1),
    ]),
  );
  const dependency = orNotFound(await usable.executeTakeFirst());
  return { account: dependency.owner_id, dependency };
}

export async function reloaded(db: Queries, { id }: Pick<DependencyRow, 'id'>): Promise<DependencyRow> {
  return db.selectFrom('dependencies').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}
