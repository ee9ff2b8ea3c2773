import { projectRoute } from '../api/route.ts';
import type { DependencyRow, SuiteRow } from '../db/schema.ts';
import type { FieldErrors } from '../errors.ts';
import { requiredIdentifier } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { destroyed, destroyedAnswer, orNotFound } from './common.ts';
import { usableBy } from './dependency-relations.ts';
import { orTaken } from './names.ts';
import { inSuite, loadSuite } from './suites.ts';

const answer = schema.record({
  id: schema.id,
  id_ref: schema.string,
  name: schema.string,
  prefix: schema.string,
  launch_command: schema.string,
});

function view({ id, name, prefix, launch_command }: Pick<DependencyRow, 'id' | 'name' | 'prefix' | 'launch_command'>) {
  return { id, id_ref: String(id), name, prefix, launch_command };
}

async function loadAttached(call: AttachedInPath): Promise<{ suite: SuiteRow; dependency: DependencyRow }> {
  const { suite } = await loadSuite(call);
  const attached = call.db
    .selectFrom('suite_dependencies')
    .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
    .selectAll('dependencies')
    .where('suite_dependencies.suite_id', '=', suite.id)
    .where('suite_dependencies.dependency_id', '=', call.params.dependency_id);
  return { suite, dependency: orNotFound(await attached.executeTakeFirst()) };
}

type AttachedInPath = Parameters<typeof loadSuite>[0] & { params: { dependency_id: bigint } };

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id/dependencies',
    access: 'both',
    scope: 'suites',
    summary: 'List the dependencies of a suite, in the order in which they were attached',
    answer: schema.listOf(answer),
    load: loadSuite,
    async handle({ db, suite }) {
      const rows = await db
        .selectFrom('suite_dependencies')
        .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
        .select(['dependencies.id', 'dependencies.name', 'dependencies.prefix', 'dependencies.launch_command'])
        .where('suite_dependencies.suite_id', '=', suite.id)
        .orderBy('suite_dependencies.id')
        .execute();
      return rows.map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/suites/:suite_id/dependencies',
    access: 'both',
    scope: 'suites',
    summary: 'Attach a dependency of the project’s owner, or a shared one',
    body: { dependency_id: requiredIdentifier() },
    creates: true,
    answer,
    load: loadSuite,
    async verify({ db, project }, { dependency_id: id }): Promise<FieldErrors> {
      if (id === undefined || (await usableBy(db, project.owner_id, [id])).has(id)) return {};
      return { dependency_id: ['not_found'] };
    },
    audit: { action: 'dependency.attached', details: inSuite },
    async handle({ db, suite, ids, input }) {
      const query = db.selectFrom('dependencies').selectAll().where('id', '=', input.dependency_id);
      const dependency = orNotFound(await query.executeTakeFirst(), 'dependency_id');
      const row = { id: ids.next(), suite_id: suite.id, dependency_id: dependency.id };
      await orTaken(db.insertInto('suite_dependencies').values(row).execute(), 'dependency_id');
      return view(dependency);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/suites/:suite_id/dependencies/:dependency_id',
    access: 'both',
    scope: 'suites',
    summary: 'Detach a dependency from a suite',
    answer: destroyedAnswer,
    load: loadAttached,
    audit: { action: 'dependency.detached', subject: ({ dependency }) => dependency, details: inSuite },
    async handle({ db, suite, dependency }) {
      const { numDeletedRows } = await db
        .deleteFrom('suite_dependencies')
        .where('suite_id', '=', suite.id)
        .where('dependency_id', '=', dependency.id)
        .executeTakeFirst();
      orNotFound(numDeletedRows === 1n ? numDeletedRows : undefined);
      return destroyed;
    },
  }),
];
