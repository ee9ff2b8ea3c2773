import { sql } from 'kysely';
import type { Database } from '../db/open.ts';
import type { BuildRequestRow } from '../db/schema.ts';
import { suitesOf } from '../lifecycle/chosen-suites.ts';
import { suitesOfFirst } from '../lifecycle/joined-requests.ts';
import { skippedSuites, type Reason } from '../lifecycle/skipped-suites.ts';
import { withChanges } from '../lifecycle/request-changes.ts';
import { reasonText } from '../lifecycle/reasons.ts';
import { ruleText } from '../lifecycle/rules.ts';
import type { Explanation } from '../../shared/records/build-request.ts';
import { withIdString } from './common.ts';

/** Explains in a sentence per suite why it ran for a request, or did not. `account` is the caller's. */
export async function explain(db: Database, account: bigint, request: BuildRequestRow): Promise<Explanation[]> {
  const { id, project_id: projectId, commit_id: commitId } = request;
  if (commitId === null) return [];
  const commits = db.read.selectFrom('commits').selectAll().where('id', '=', commitId);
  const builds = await db.read
    .selectFrom('builds')
    .select(['suite_id', 'suite_name'])
    .select(sql<number | bigint>`min(case when builds.failure_reason = 'rule_too_slow' then 1 else 0 end)`.as('slow'))
    .where('builds.build_request_id', '=', id)
    .groupBy(['suite_id', 'suite_name'])
    .orderBy('suite_id')
    .execute();
  const commit = await withChanges(db.read, id, await commits.executeTakeFirstOrThrow());
  const about = { projectId, request: { ...request, named: suitesOf(request) }, commit };
  const own = new Set(builds.map(({ suite_name: name }) => name));
  const ofFirst = await suitesOfFirst(db.read, request);
  const others = await skippedSuites(db, account, about, { own, ofFirst });
  return [
    ...builds.map(({ suite_id: suite, suite_name: name, slow }) => ({
      ...withIdString('suite_id', suite),
      name,
      runs: Number(slow) === 0,
      why: Number(slow) === 0 ? 'All its rules match.' : reasonText('rule_too_slow'),
    })),
    ...others.map(({ suite, reason }) => ({
      ...withIdString('suite_id', suite.suite_id),
      name: suite.name,
      runs: false,
      why: whyNot(reason),
    })),
  ];
}

function whyNot(reason: Reason): string {
  if (typeof reason === 'string') return reason;
  const { rule, values, count } = reason;
  const more = count > values.length ? ` and ${count - values.length} more` : '';
  const has = count === 0 ? 'the commit has none' : `the commit has ${values.join(', ')}${more}`;
  return `Its rule ${ruleText(rule)} does not match: ${has}.`;
}
