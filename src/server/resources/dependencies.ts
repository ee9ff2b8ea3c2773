import { allRows } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { isForeignKeyViolation, type Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
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
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, writeContextOf } from './common.ts';
import { checkRelated, relate } from './dependency-relations.ts';
import {
  createdView,
  isSharedByOther,
  loadDependency,
  loadUsableDependency,
  viewsWithRelated,
  viewWithRelated,
} from './dependency-views.ts';
import { checkName, orTaken } from './names.ts';
import { reasonsInVain } from './waiting.ts';

const mayWait = ({ state }: DependencyRow): boolean => state === 'enqueued_for_compile';

const fields = { ...dependencyFields, related_dependencies: identifiers('relatedDependencies') };

type Sent = Partial<ValuesOf<typeof fields>>;

/** As a path, and not only as the start of a longer name. */
function namesPrefix(command: string, prefix: string): boolean {
  for (let at = command.indexOf(prefix); at >= 0; at = command.indexOf(prefix, at + 1)) {
    const next = command[at + prefix.length] ?? '';
    if (!/[A-Za-z0-9._-]/.test(next)) return true;
  }
  return false;
}

async function check(db: Queries, ownerId: bigint, sent: Sent, present?: DependencyRow): Promise<FieldErrors> {
  const errors: FieldErrors = {};
  const command = sent.command ?? present?.command;
  const prefix = sent.prefix ?? present?.prefix;
  if (command !== undefined && prefix !== undefined && !namesPrefix(command, prefix))
    errors.command = ['invalid_format'];
  return { ...errors, ...(await checkRelated(db, ownerId, sent.related_dependencies, present?.id)) };
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

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dependencies',
    access: 'users',
    scope: 'dependencies',
    summary: 'List your dependencies',

    answer: listOf(ownDependencyRecord),
    async handle(call) {
      const { db, caller } = call;
      const rows = await allRows(db.selectFrom('dependencies').selectAll().where('owner_id', '=', caller.id), 'id');
      const reason = await reasonsInVain(call, { account: caller.id, rows, mayWait });
      return mapYielding(await viewsWithRelated(db, rows), (view) => ({ ...view, ...reason(view) }));
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/dependencies',
    access: 'users',
    scope: 'dependencies',
    summary: 'Describe a dependency; its source archive is uploaded next',
    body: fields,
    creates: 'dependencies',
    answer: createdDependencyRecord,
    verify: ({ db, caller }, values) => check(db, caller.id, values),
    verifyNames: ({ db, caller }, values) => checkName(db, 'dependencies', { within: caller.id, name: values.name }),
    audit: { action: 'dependency.created' },
    handle: async (call) => createdView(await create(writeContextOf(call), call.caller.id, call.input)),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Fetch one of your dependencies, or a shared one; collaborators may fetch shared ones',

    answer: ownDependencyRecord,
    isForEverybody: isSharedByOther,
    load: loadUsableDependency,
    async handle(call) {
      const { db, dependency } = call;
      const reason = await reasonsInVain(call, { account: dependency.owner_id, rows: [dependency], mayWait });
      return { ...(await viewWithRelated(db, dependency)), ...reason(dependency) };
    },
  }),
  accountRoute({
    method: 'PUT',
    path: '/dependencies/:dependency_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Change a dependency; its next compile uses the new settings',
    body: fields,
    changes: 'dependencies',
    answer: dependencyRecord,
    load: loadDependency,
    verify: ({ db, caller, dependency }, values) => check(db, caller.id, values, dependency),
    verifyNames: ({ db, caller, dependency }, values) =>
      checkName(db, 'dependencies', { within: caller.id, name: values.name, except: dependency.id }),
    audit: { action: 'dependency.updated', subject: ({ dependency }) => dependency },
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
  accountRoute({
    method: 'DELETE',
    path: '/dependencies/:dependency_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Delete a dependency that no suite and no other dependency uses',
    answer: destroyedAnswer,
    load: loadDependency,
    audit: { action: 'dependency.deleted', subject: ({ dependency }) => dependency },
    async handle(call) {
      await remove(writeContextOf(call), call.dependency.id);
      return destroyed;
    },
  }),
];
