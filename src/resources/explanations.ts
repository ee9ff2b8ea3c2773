import type { Queries } from '../db/open.ts';
import type { BuildRequestRow } from '../db/schema.ts';
import { inWords, leftOut, mostValues, shortened, type Reason } from '../lifecycle/left-out.ts';
import { suitesOf } from '../lifecycle/chosen-suites.ts';
import { twin } from './common.ts';

/** Why each suite was run for a request, or was not, in words. */
export async function explain(db: Queries, request: BuildRequestRow): Promise<object[]> {
  const { id, project_id: projectId, commit_id: commitId } = request;
  if (commitId === null) return [];
  const commit = await db.selectFrom('commits').selectAll().where('id', '=', commitId).executeTakeFirstOrThrow();
  const builds = await db
    .selectFrom('builds')
    .innerJoin('suites', 'suites.id', 'builds.suite_id')
    .select(['suites.id', 'suites.name'])
    .distinct()
    .where('builds.build_request_id', '=', id)
    .orderBy('suites.id')
    .execute();
  const about = { projectId, request: { ...request, named: suitesOf(request) }, commit };
  const others = await leftOut(db, about, new Set(builds.map((suite) => suite.id)));
  return [
    ...builds.map(({ id: suite, name }) => ({
      ...twin('suite_id', suite),
      name,
      runs: true,
      why: 'All its rules are met.',
    })),
    ...others.map(({ suite, reason }) => ({
      ...twin('suite_id', suite.id),
      name: suite.name,
      runs: false,
      why: whyNot(reason),
    })),
  ];
}

function whyNot(reason: Reason): string {
  if (typeof reason === 'string') return inWords[reason];
  const { rule, values } = reason;
  const more = values.length > mostValues ? ` and ${values.length - mostValues} more` : '';
  const listed = values.slice(0, mostValues).map(shortened).join(', ');
  const has = values.length === 0 ? 'the commit has none' : `the commit has ${listed}${more}`;
  return `Its rule ${rule.subject} ${rule.operator.replaceAll('_', ' ')} ${shortened(rule.value)} is not met: ${has}.`;
}
