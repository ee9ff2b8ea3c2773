import { allRows } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError } from '../errors.ts';
import { required, storedAs } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { most } from '../lib/bounds.ts';
import { mapByTurns } from '../lib/turns.ts';
import { variantsOf } from '../lib/matrix.ts';
import { tagsIn, textOfTags } from '../lib/tags.ts';
import { retagBuilds } from '../lifecycle/builds.ts';
import { destroyed, destroyedAnswer, idTwin, orNotFound, sentColumns, twin, writeContextOf } from './common.ts';
import { cachePaths, command, description, globs, image, name, tags } from './forms.ts';
import { checkName, orTaken } from './names.ts';
import { asJson, checkTimeout, columnsOf, runAnswer, runFields, runView } from './suite-fields.ts';

const answer = schema.record({
  ...idTwin,
  name: schema.string,
  description: schema.string,
  command: schema.string,
  tags: schema.listOf(schema.string),
  image: schema.string,
  reports: schema.listOf(schema.string),
  ...runAnswer,
  cache: schema.listOf(schema.string),
  artifacts: schema.listOf(schema.string),
});

function view(suite: SuiteRow): object {
  return {
    ...twin('id', suite.id),
    name: suite.name,
    description: suite.description,
    command: suite.command,
    tags: tagsIn(suite.tags),
    image: suite.image,
    ...runView(suite),
    cache: JSON.parse(suite.cache) as string[],
    reports: JSON.parse(suite.reports) as string[],
    artifacts: JSON.parse(suite.artifacts) as string[],
  };
}

/** The suite in the path, if it belongs to the project. */
export async function loadSuite(call: SuiteInPath): Promise<{ suite: SuiteRow }> {
  const { db, project, params } = call;
  const query = db.selectFrom('suites').selectAll().where('id', '=', params.suite_id);
  return { suite: orNotFound(await query.where('project_id', '=', project.id).executeTakeFirst()) };
}

interface SuiteInPath {
  db: Queries;
  project: { id: bigint };
  params: { suite_id: bigint };
}

/** The details of the audit log for a record in a suite. */
export function inSuite({ suite }: { suite: SuiteRow }) {
  return { suite: suite.name, suite_id_str: String(suite.id) };
}

/** One request builds all combinations of all suites, so those of a project have a bound together. */
async function holdVariants(db: Queries, project: { id: bigint }, matrix: string | undefined): Promise<void> {
  if (matrix === undefined || matrix === '[]') return;
  const suites = db.selectFrom('suites').select('matrix').where('project_id', '=', project.id);
  const rows = await suites.where('matrix', '<>', '[]').execute();
  const counts = rows.map((row) => variantsOf(JSON.parse(row.matrix) as string[]).length);
  if (counts.reduce((sum, count) => sum + count, 0) > most.variantsOfProject) throw new ApiError('is_reserved');
}

const fields = {
  name: required(name()),
  command: required(command()),
  description: description(),
  'tags[]': storedAs(tags(), textOfTags),
  image: image(),
  'reports[]': storedAs(globs('files in the workspace that are reports of tests, as JUnit XML'), asJson),
  ...runFields,
  'cache[]': storedAs(
    cachePaths('paths that a passed build leaves to the next one, in the workspace or under ~'),
    asJson,
  ),
  'artifacts[]': storedAs(globs('files in the workspace that are kept after a build, whatever its result'), asJson),
};

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites',
    access: 'both',
    scope: 'suites',
    summary: 'List the suites of a project',
    answer: schema.listOf(answer),
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
    body: fields,
    creates: 'suites',
    answer,
    verify: checkTimeout,
    verifyNames: ({ db, project }, values) => checkName(db, 'suites', { within: project.id, name: values.name }),
    audit: { action: 'suite.created' },
    async handle({ db, project, ids, input }) {
      const suite = { id: ids.next(), project_id: project.id, ...columnsOf(input) };
      await orTaken(db.insertInto('suites').values(suite).execute());
      await holdVariants(db, project, suite.matrix);
      return view(suite);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Fetch a suite',
    answer,
    load: loadSuite,
    handle: async ({ suite }) => view(suite),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Change a suite',
    body: fields,
    changes: 'suites',
    answer,
    load: loadSuite,
    verify: checkTimeout,
    verifyNames: ({ db, suite }, values) =>
      checkName(db, 'suites', { within: suite.project_id, name: values.name, except: suite.id }),
    audit: { action: 'suite.updated', subject: ({ suite }) => suite },
    async handle(call) {
      const { db, suite, project } = call;
      const changed = sentColumns(columnsOf(call.input));
      if (Object.keys(changed).length > 0) {
        await orTaken(db.updateTable('suites').set(changed).where('id', '=', suite.id).execute());
      }
      await holdVariants(db, project, changed.matrix);
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
