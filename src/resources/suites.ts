import { allRows } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { most } from '../lib/bounds.ts';
import { mapByTurns } from '../lib/turns.ts';
import { mostVariantsOf, variantsOf } from '../lib/matrix.ts';
import { retagBuilds } from '../lifecycle/builds.ts';
import { columnsOf, valuesIn, type ValuesOf } from '../records/fields.ts';
import { matrixFields, suiteFields, suiteRecord, type Suite } from '../records/suite.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, twin, writeContextOf, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';

function view(suite: SuiteRow): Suite {
  return { ...twin('id', suite.id), ...valuesIn(suiteFields, suite) };
}

/** The suite in the path, if it belongs to the project. */
export async function loadSuite(call: InProject<'suite_id'>): Promise<{ suite: SuiteRow }> {
  const { db, project, params } = call;
  const query = db.selectFrom('suites').selectAll().where('id', '=', params.suite_id);
  return { suite: orNotFound(await query.where('project_id', '=', project.id).executeTakeFirst()) };
}

/** The details of the audit log for a record in a suite. */
export function inSuite({ suite }: { suite: SuiteRow }) {
  return { suite: suite.name, suite_id_str: String(suite.id) };
}

/** One request builds all combinations of all suites, so those of a project have a bound together. */
async function holdVariants(db: Queries, project: { id: bigint }, changed: Partial<SuiteRow>): Promise<void> {
  if (changed.matrix === undefined && changed.matrix_include === undefined) return;
  const rows = await db
    .selectFrom('suites')
    .select(['matrix', 'matrix_include'])
    .where('project_id', '=', project.id)
    .where((of) => of.or([of('matrix', '<>', '[]'), of('matrix_include', '<>', '[]')]))
    .execute();
  const { matrix, matrix_include } = matrixFields;
  const counts = rows.map((row) => mostVariantsOf(valuesIn({ matrix, matrix_include }, row)));
  if (counts.reduce((sum, count) => sum + count, 0) > most.variantsOfProject) throw new ApiError('is_reserved');
}

type Sent = Partial<ValuesOf<typeof suiteFields>>;

/** What several fields together, or the server's settings, have to say. */
async function check({ buildTimeout }: { buildTimeout: number }, sent: Sent, suite?: SuiteRow): Promise<FieldErrors> {
  return { ...checkTimeout(buildTimeout, sent), ...checkVariants(sent, suite) };
}

/** No suite may take longer than the server allows. */
function checkTimeout(buildTimeout: number, { timeout = 0 }: Sent): FieldErrors {
  return timeout > buildTimeout ? { timeout: ['invalid_format'] } : {};
}

/** There must be something to build, and not too much. Told at the field that was sent and makes it so. */
function checkVariants(sent: Sent, suite?: SuiteRow): FieldErrors {
  if (!Object.keys(matrixFields).some((name) => name in sent)) return {};
  const stored = suite && valuesIn(matrixFields, suite);
  const lists = { matrix: [], matrix_include: [], matrix_exclude: [], ...stored, ...sent };
  const wrong = (field: 'matrix_include' | 'matrix_exclude'): FieldErrors => ({
    [sent[field] === undefined ? 'matrix' : field]: ['invalid_format'],
  });
  if (variantsOf({ ...lists, matrix_include: [] }).length > most.variants) return { matrix: ['invalid_format'] };
  const count = variantsOf(lists).length;
  if (count > most.variants) return wrong('matrix_include');
  return count === 0 ? wrong('matrix_exclude') : {};
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites',
    access: 'both',
    scope: 'suites',
    summary: 'List the suites of a project',
    answer: listOf(suiteRecord),
    async handle({ db, project }) {
      const suites = await allRows(db.selectFrom('suites').selectAll().where('project_id', '=', project.id), 'id');
      return mapByTurns(suites, view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/suites',
    access: 'both',
    scope: 'suites',
    summary: 'Create a suite',
    body: suiteFields,
    creates: 'suites',
    answer: suiteRecord,
    verify: (call, values) => check(call, values),
    verifyNames: ({ db, project }, values) => checkName(db, 'suites', { within: project.id, name: values.name }),
    audit: { action: 'suite.created' },
    async handle({ db, project, ids, input }) {
      const suite = { id: ids.next(), project_id: project.id, ...columnsOf(suiteFields, input) };
      await orTaken(db.insertInto('suites').values(suite).execute());
      await holdVariants(db, project, suite);
      return view(suite);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Fetch a suite',
    answer: suiteRecord,
    load: loadSuite,
    handle: async ({ suite }) => view(suite),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Change a suite',
    body: suiteFields,
    changes: 'suites',
    answer: suiteRecord,
    load: loadSuite,
    verify: (call, values) => check(call, values, call.suite),
    verifyNames: ({ db, suite }, values) =>
      checkName(db, 'suites', { within: suite.project_id, name: values.name, except: suite.id }),
    audit: { action: 'suite.updated', subject: ({ suite }) => suite },
    async handle(call) {
      const { db, suite, project } = call;
      const changed = columnsOf(suiteFields, call.input);
      if (Object.keys(changed).length > 0) {
        await orTaken(db.updateTable('suites').set(changed).where('id', '=', suite.id).execute());
      }
      await holdVariants(db, project, changed);
      const { tags: now = suite.tags } = changed;
      if (now !== suite.tags) {
        await retagBuilds(writeContextOf(call), { accountId: project.owner_id, suiteId: suite.id, tags: now });
      }
      return view({ ...suite, ...changed });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'users',
    scope: 'suites',
    summary: 'Delete a suite; its builds stay',
    answer: destroyedAnswer,
    load: loadSuite,
    audit: { action: 'suite.deleted', subject: ({ suite }) => suite },
    async handle({ db, database, project, suite }) {
      await database.holdNumber(db, project.id); // its caches go with it (lifecycle/caches.ts)
      await db.deleteFrom('suites').where('id', '=', suite.id).execute();
      return destroyed;
    },
  }),
];
