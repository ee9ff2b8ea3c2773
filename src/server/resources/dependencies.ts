import { isForeignKeyViolation, type Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { mapYielding } from '../../shared/lib/event-loop.ts';
import { dependencyHappened } from '../software/dependencies.ts';
import { changeDependency, createDependency, deleteDependency } from '../software/dependency-records.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { holdForeign } from '../software/pins.ts';
import { dependencyMachine } from '../lifecycle/states.ts';
import {
  createdDependencyRecord,
  dependencyFields,
  dependencyRecord,
  ownDependencyRecord,
} from '../../shared/records/dependency.ts';
import { columnsOf, identifiers, type ValuesOf } from '../../shared/records/fields.ts';
import { writeContextOf } from './common.ts';
import { checkRelated, relate } from './dependency-relations.ts';
import {
  createdView,
  isSharedByOther,
  loadUsableDependency,
  viewsWithRelated,
  viewWithRelated,
} from './dependency-views.ts';
import { orTaken } from './names.ts';
import { accountRecords, byQuery, loadAccount, ownedBy } from './record-routes.ts';
import { reasonsInVain } from './waiting.ts';

const mayWait = ({ state }: DependencyRow): boolean => state === 'enqueued_for_compile';

const fields = { ...dependencyFields, related_dependencies: identifiers('relatedDependencies') };

/** True if the command contains the prefix as a path, and not only as the start of a longer name. */
function namesPrefix(command: string, prefix: string): boolean {
  for (let at = command.indexOf(prefix); at >= 0; at = command.indexOf(prefix, at + 1)) {
    const next = command[at + prefix.length] ?? '';
    if (!/[A-Za-z0-9._-]/.test(next)) return true;
  }
  return false;
}

async function create(context: WriteContext, ownerId: bigint, input: ValuesOf<typeof fields>): Promise<DependencyRow> {
  const { related_dependencies: related } = input;
  await holdForeign(context, ownerId, related);
  const dependency = await orTaken(createDependency(context, ownerId, columnsOf(dependencyFields, input)));
  await relate(context, dependency, related);
  await dependencyHappened(context, dependency, dependencyMachine.initial);
  return dependency;
}

async function isInUse(db: Queries, id: bigint): Promise<boolean> {
  const suite = await db
    .selectFrom('suite_dependencies')
    .select('id')
    .where('dependency_id', '=', id)
    .limit(1)
    .executeTakeFirst();
  const other = await db
    .selectFrom('dependency_relations')
    .select('id')
    .where('related_id', '=', id)
    .limit(1)
    .executeTakeFirst();
  return suite !== undefined || other !== undefined;
}

async function remove(context: WriteContext, id: bigint): Promise<void> {
  if (await isInUse(context.trx, id)) throw new ApiError('resource_temporary_unavailable');
  try {
    await deleteDependency(context, id);
  } catch (error) {
    // A new use began between the check and the delete.
    throw isForeignKeyViolation(error) ? new ApiError('resource_temporary_unavailable') : error;
  }
}

export const dependencies = accountRecords({
  path: '/dependencies',
  name: 'dependency',
  access: 'users',
  scope: 'dependencies',
  fields,
  answer: ownDependencyRecord,
  inOrganisation: { reads: 'viewer', writes: 'maintainer' },
  inside: loadAccount,
  rows: ({ db, account }) => byQuery(db.selectFrom('dependencies').selectAll().where(ownedBy(account))),
  async view(dependency, call) {
    const reason = await reasonsInVain(call, { account: dependency.owner_id, rows: [dependency], mayWait });
    return { ...(await viewWithRelated(call.db, dependency)), ...reason(dependency) };
  },
  async verify({ db, account }, sent, dependency) {
    const { command, prefix } = { ...dependency, ...sent };
    const isWrong = command !== undefined && prefix !== undefined && !namesPrefix(command, prefix);
    const related = await checkRelated(db, account, sent.related_dependencies, dependency?.id);
    return { ...(isWrong && { command: ['invalid_format'] }), ...related };
  },
  namesIn: ({ account }) => ({ table: 'dependencies', column: 'owner_id', within: account }),
});

export const routes = [
  dependencies.list('List your dependencies, or those of an organisation', {
    async handle(call) {
      const { db, account } = call;
      const rows = await dependencies.rows(call).all();
      const reason = await reasonsInVain(call, { account, rows, mayWait });
      return mapYielding(await viewsWithRelated(db, rows), (view) => ({ ...view, ...reason(view) }));
    },
  }),
  dependencies.create('Describe a dependency; its source archive is uploaded next', {
    creates: 'dependencies',
    answer: createdDependencyRecord,
    handle: async (call) => createdView(await create(writeContextOf(call), call.account, call.input)),
  }),
  dependencies.show('Fetch one of your dependencies, or a shared one; collaborators may fetch shared ones', {
    isForEverybody: isSharedByOther,
    load: loadUsableDependency,
  }),
  dependencies.change('Change a dependency; its next compile uses the new settings', {
    changes: 'dependencies',
    answer: dependencyRecord,
    async handle(call) {
      const { db, dependency, input } = call;
      const { related_dependencies: related } = input;
      const changed = columnsOf(dependencyFields, input);
      if (related) await holdForeign(writeContextOf(call), dependency.owner_id, related);
      await orTaken(changeDependency(writeContextOf(call), dependency.id, changed));
      if (related) await relate(writeContextOf(call), dependency, related);
      return viewWithRelated(db, { ...dependency, ...changed });
    },
  }),
  dependencies.remove('Delete a dependency that no suite and no other dependency uses', {
    handle: (call) => remove(writeContextOf(call), call.dependency.id),
  }),
];
