import type { DependencyRow } from '../db/schema.ts';
import type { dependencyFields } from '../../shared/records/dependency.ts';
import type { ColumnsOf } from '../../shared/records/fields.ts';
import { dropCompile } from './dependencies.ts';
import { dependencyMachine } from '../lifecycle/states.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export type DependencySettings = ColumnsOf<typeof dependencyFields>;

export async function createDependency(
  { trx, ids }: WriteContext,
  ownerId: bigint,
  settings: DependencySettings,
): Promise<DependencyRow> {
  const dependency: DependencyRow = {
    id: ids.next(),
    owner_id: ownerId,
    ...settings,
    state: dependencyMachine.initial,
    archive_content_type: null,
    archive_file_size: null,
    created_at: BigInt(Date.now()),
    archive: null,
    archive_kind: null,
    result: null,
    result_prefix: '',
    compile_prefix: '',
    shared: 0,
    last_event: 0n,
  };
  await trx.insertInto('dependencies').values(dependency).execute();
  return dependency;
}

export async function changeDependency(
  { trx }: WriteContext,
  id: bigint,
  settings: Partial<DependencySettings>,
): Promise<void> {
  if (Object.keys(settings).length === 0) return;
  await trx.updateTable('dependencies').set(settings).where('id', '=', id).execute();
}

/** The database refuses while the dependency is in use. */
export async function deleteDependency(context: WriteContext, id: bigint): Promise<void> {
  await dropCompile(context, id);
  await context.trx.deleteFrom('dependencies').where('id', '=', id).execute();
}
