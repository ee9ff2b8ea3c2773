import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { factsOf } from './chosen-suites.ts';
import { unmetRule, type Rule } from './rules.ts';

/** Why suites were not run on a commit. */

export type Asked = Pick<BuildRequestRow, 'id' | 'event' | 'target_branch' | 'from_fork'> & {
  /** The suites that were asked for; none where all were. */
  named: readonly bigint[];
};

export type Reason = 'not_asked_for' | 'made_later' | 'not_part' | { rule: Rule; values: readonly string[] };

export interface LeftOut {
  suite: SuiteRow;
  reason: Reason;
}

export async function leftOut(
  db: Queries,
  { projectId, request, commit }: { projectId: bigint; request: Asked; commit: CommitRow },
  built: ReadonlySet<bigint>,
): Promise<LeftOut[]> {
  const suites = await db.selectFrom('suites').selectAll().where('project_id', '=', projectId).orderBy('id').execute();
  const rules = await db
    .selectFrom('suite_rules')
    .innerJoin('suites', 'suites.id', 'suite_rules.suite_id')
    .selectAll('suite_rules')
    .where('suites.project_id', '=', projectId)
    .orderBy('suite_rules.id')
    .execute();
  const rulesOf = Map.groupBy(rules, (rule) => rule.suite_id);
  const facts = factsOf(commit, request);
  return suites
    .filter(({ id }) => !built.has(id))
    .map((suite) => {
      const isAsked = request.named.length === 0 || request.named.includes(suite.id);
      if (!isAsked) return { suite, reason: 'not_asked_for' };
      const unmet = unmetRule((rulesOf.get(suite.id) ?? []) as unknown as Rule[], facts);
      return { suite, reason: unmet ?? (suite.id > request.id ? 'made_later' : 'not_part') };
    });
}

/** What is not a rule, in words. */
export const inWords = {
  not_asked_for: 'It was not asked for: the build is one of some suites only.',
  made_later: 'It was made after this was asked for.',
  not_part: 'It was not part of this.',
} as const;

/** More values of a commit are not listed. */
export const mostValues = 5;
const longestValue = 100;

export function shortened(value: string): string {
  return value.length > longestValue ? `${value.slice(0, longestValue)}…` : value;
}
