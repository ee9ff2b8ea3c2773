import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { text, type ValuesOf } from '../http/fields.ts';
import { pageOf } from '../http/paging.ts';
import * as schema from '../http/schema.ts';
import type { IdSource } from '../lib/ids.ts';
import { dependencyView as view, describedView, relatedTo } from '../views/dependency.ts';
import { destroyed, destroyedAnswer, idTwin, orNotFound } from './common.ts';
import { dependencyFields as fields, namesPrefix } from './dependency-fields.ts';
import { checkRelated, relate } from './dependency-relations.ts';
import { checkName, orTaken } from './names.ts';

const describedFields = {
  name: schema.string,
  description: schema.string,
  command: schema.string,
  prefix: schema.string,
  source: schema.string,
  launch_command: schema.string,
  marketplace_state: schema.string,
};

const createdAnswer = schema.record({ id: schema.id, id_ref: schema.string, ...describedFields });

const answer = schema.record({
  ...idTwin,
  ...describedFields,
  archive_content_type: schema.nullable(schema.string),
  archive_file_size: schema.nullable(schema.id),
  related_dependencies: schema.listOf(schema.record({ ...idTwin, name: schema.string })),
});

/** The answer to a create call names its twin differently, and calls the state what it is to others: private. */
function createdView(dependency: DependencyRow) {
  return {
    id: dependency.id,
    id_ref: String(dependency.id),
    ...describedView(dependency),
    marketplace_state: 'private',
  };
}

async function viewWithRelated(db: Queries, dependency: DependencyRow) {
  return view(dependency, await relatedTo(db, [dependency.id]));
}

async function loadDependency(call: DependencyInPath): Promise<{ dependency: DependencyRow }> {
  const query = call.db.selectFrom('dependencies').selectAll().where('id', '=', call.params.dependency_id);
  return { dependency: orNotFound(await query.where('owner_id', '=', call.caller.id).executeTakeFirst()) };
}

interface DependencyInPath {
  db: Queries;
  caller: { id: bigint };
  params: { dependency_id: bigint };
}

type Sent = Partial<ValuesOf<typeof fields>>;

async function check(db: Queries, ownerId: bigint, sent: Sent, present?: DependencyRow): Promise<FieldErrors> {
  const errors: FieldErrors = {};
  const command = sent.command ?? present?.command;
  const prefix = sent.prefix ?? present?.prefix;
  if (command !== undefined && prefix !== undefined && !namesPrefix(command, prefix))
    errors.command = ['invalid_format'];
  return { ...errors, ...(await checkRelated(db, ownerId, sent['related_dependencies[]'], present?.id)) };
}

/** What can be called off or handed on only in one state, and not for the moment in another. */
async function moveState(
  trx: Transaction,
  dependency: DependencyRow,
  from: string,
  to: string,
): Promise<DependencyRow> {
  const { numUpdatedRows } = await trx
    .updateTable('dependencies')
    .set({ state: to })
    .where('id', '=', dependency.id)
    .where('state', 'in', [from, to])
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new ApiError('resource_temporary_unavailable');
  return { ...dependency, state: to };
}

async function create(
  trx: Transaction,
  ids: IdSource,
  ownerId: bigint,
  input: ValuesOf<typeof fields>,
): Promise<DependencyRow> {
  const { 'related_dependencies[]': related, ...described } = input;
  const dependency: DependencyRow = {
    id: ids.next(),
    owner_id: ownerId,
    ...described,
    state: 'waiting_archive_upload',
    archive_content_type: null,
    archive_file_size: null,
    created_at: BigInt(Date.now()),
  };
  await orTaken(trx.insertInto('dependencies').values(dependency).execute());
  await relate(trx, ids, dependency.id, related);
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

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dependencies',
    access: 'users',
    scope: 'dependencies',
    summary: 'List your dependencies',
    answer: schema.listOf(answer),
    async handle({ db, caller }) {
      const query = db.selectFrom('dependencies').selectAll().where('owner_id', '=', caller.id).orderBy('id');
      const dependencies = await query.execute();
      const related = await relatedTo(
        db,
        dependencies.map((dependency) => dependency.id),
      );
      return dependencies.map((dependency) => view(dependency, related));
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/dependencies',
    access: 'users',
    scope: 'dependencies',
    summary: 'Describe a dependency; its source archive is uploaded next',
    body: fields,
    creates: true,
    answer: createdAnswer,
    verify: ({ db, caller }, values) => check(db, caller.id, values),
    verifyNames: ({ db, caller }, values) => checkName(db, 'dependencies', { within: caller.id, name: values.name }),
    handle: async ({ db, caller, ids, input }) => createdView(await create(db, ids, caller.id, input)),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Fetch a dependency',
    answer,
    load: loadDependency,
    handle: ({ db, dependency }) => viewWithRelated(db, dependency),
  }),
  accountRoute({
    method: 'PUT',
    path: '/dependencies/:dependency_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Change a dependency; how it is compiled takes effect with its next archive',
    body: fields,
    answer,
    load: loadDependency,
    verify: ({ db, caller, dependency }, values) => check(db, caller.id, values, dependency),
    verifyNames: ({ db, caller, dependency }, values) =>
      checkName(db, 'dependencies', { within: caller.id, name: values.name, except: dependency.id }),
    async handle({ db, ids, dependency, input }) {
      const { 'related_dependencies[]': related, ...described } = input;
      if (Object.keys(described).length > 0) {
        await orTaken(db.updateTable('dependencies').set(described).where('id', '=', dependency.id).execute());
      }
      if (related) await relate(db, ids, dependency.id, related);
      return viewWithRelated(db, { ...dependency, ...described });
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
    async handle({ db, dependency }) {
      if (await isInUse(db, dependency.id)) throw new ApiError('resource_temporary_unavailable');
      await db.deleteFrom('dependencies').where('id', '=', dependency.id).execute();
      return destroyed;
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/dependencies/:dependency_id/share',
    access: 'users',
    scope: 'dependencies',
    summary: 'Offer a compiled dependency to every account',
    answer,
    load: loadDependency,
    handle: async ({ db, dependency }) => viewWithRelated(db, await moveState(db, dependency, 'compiled', 'shared')),
  }),
  accountRoute({
    method: 'POST',
    path: '/dependencies/:dependency_id/unshare',
    access: 'users',
    scope: 'dependencies',
    summary: 'Take a shared dependency back',
    answer,
    load: loadDependency,
    handle: async ({ db, dependency }) => viewWithRelated(db, await moveState(db, dependency, 'shared', 'compiled')),
  }),
  accountRoute({
    method: 'GET',
    path: '/marketplace',
    access: 'users',
    scope: 'dependencies',
    summary: 'List what every account may use; `name` searches',
    query: { name: text({ max: 255 }) },
    paged: true,
    answer: schema.listOf(answer),
    async handle({ db, query: { name }, page }) {
      let shared = db.selectFrom('dependencies').selectAll().where('state', '=', 'shared');
      if (name !== '') shared = shared.where(sql<boolean>`lower(name) like ${likePattern(name)} escape '!'`);
      const rows = await onPage(shared, 'id', page).execute();
      const related = await relatedTo(
        db,
        rows.map((row) => row.id),
      );
      return pageOf(
        page,
        rows.map((row) => view(row, related)),
      );
    },
  }),
];

/** The text anywhere in the name, and no sign in it special. */
function likePattern(text: string): string {
  return `%${text.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`;
}
