import { accountRoute } from '../api/route.ts';
import { dependencyUsesRecord } from '../../shared/records/dependency.ts';
import { withIdString } from './common.ts';
import { dependencies } from './dependencies.ts';

/** Uses by other accounts are private, so only their number is shown. */
export const routes = [
  accountRoute({
    ...dependencies.ofOne,
    method: 'GET',
    path: '/dependencies/:dependency_id/uses',
    summary: 'List the suites and dependencies that use a dependency of yours, and how many of other accounts do',
    answer: dependencyUsesRecord,
    async handle({ db, caller, dependency }) {
      const suites = await db
        .selectFrom('suite_dependencies as use')
        .innerJoin('suites as s', 's.id', 'use.suite_id')
        .innerJoin('projects as p', 'p.id', 's.project_id')
        .leftJoin('collaborators as c', (join) =>
          join.onRef('c.project_id', '=', 'p.id').on('c.user_id', '=', caller.id),
        )
        .select(['s.id', 's.name', 's.project_id', 'p.name as project_name', 'p.owner_id', 'c.id as collaborating'])
        .where('use.dependency_id', '=', dependency.id)
        .orderBy('use.id')
        .execute();
      const related = await db
        .selectFrom('dependency_relations as r')
        .innerJoin('dependencies as d', 'd.id', 'r.dependency_id')
        .select(['d.id', 'd.name', 'd.owner_id'])
        .where('r.related_id', '=', dependency.id)
        .orderBy('r.id')
        .execute();
      const seen = suites.filter((suite) => suite.owner_id === caller.id || suite.collaborating !== null);
      const own = related.filter(({ owner_id: owner }) => owner === caller.id);
      return {
        suites: seen.map((suite) => ({
          ...withIdString('id', suite.id),
          name: suite.name,
          ...withIdString('project_id', suite.project_id),
          project_name: suite.project_name,
        })),
        dependencies: own.map(({ id, name }) => ({ ...withIdString('id', id), name })),
        elsewhere: suites.length - seen.length + related.length - own.length,
      };
    },
  }),
];
