import { projectsSeenBy } from '../auth/projects.ts';
import { accountRoute } from '../api/route.ts';
import { dependencyUsesRecord } from '../../shared/records/dependency.ts';
import { withIdString } from './common.ts';
import { dependencies } from './dependencies.ts';

/** Uses by other accounts are private, so only their number is shown. */
export const routes = [
  accountRoute({
    ...dependencies.ofOne,
    inOrganisation: 'viewer',
    method: 'GET',
    path: '/dependencies/:dependency_id/uses',
    summary: 'List the suites and dependencies that use a dependency of yours, and how many of other accounts do',
    answer: dependencyUsesRecord,
    async handle({ db, caller, dependency }) {
      const suites = await db
        .selectFrom('suite_dependencies as use')
        .innerJoin('suites as s', 's.id', 'use.suite_id')
        .innerJoin('projects as p', 'p.id', 's.project_id')
        .select(['s.id', 's.name', 's.project_id', 'p.name as project_name'])
        .select((of) => of('p.id', 'in', projectsSeenBy(db, { ...caller, unpaid: false }).select('p.id')).as('is_seen'))
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
      const seen = suites.filter(({ is_seen: isSeen }) => Boolean(isSeen));
      const own = related.filter(({ owner_id: owner }) => owner === dependency.owner_id);
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
