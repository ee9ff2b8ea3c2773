import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { factsOf } from '../lifecycle/chosen-suites.ts';
import { unmetRule, type Rule } from '../lifecycle/rules.ts';
import { html, type Html } from './html.ts';

/** Why suites were not run on a commit. */

type Asked = Pick<BuildRequestRow, 'id' | 'event' | 'target_branch' | 'from_fork'> & {
  /** The suites that were asked for; none where all were. */
  named: readonly bigint[];
};

interface LeftOut {
  suite: SuiteRow;
  why: Html;
}

/** More values of a commit are not listed. */
const mostValues = 5;
const longestValue = 100;

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
      if (!isAsked) return { suite, why: html`It was not asked for: the build is one of some suites only.` };
      const unmet = unmetRule((rulesOf.get(suite.id) ?? []) as unknown as Rule[], facts);
      if (unmet) return { suite, why: ruleInWords(unmet) };
      const isNew = suite.id > request.id;
      return { suite, why: html`${isNew ? 'It was made after this was asked for.' : 'It was not part of this.'}` };
    });
}

function ruleInWords({ rule, values }: { rule: Rule; values: readonly string[] }): Html {
  const shown = values.slice(0, mostValues).map((value) => html` <code>${shortened(value)}</code>`);
  const more = values.length > mostValues ? ` and ${values.length - mostValues} more` : '';
  const has = values.length === 0 ? html`the commit has none` : html`the commit has${shown}${more}`;
  return html`Its rule <code>${rule.subject} ${rule.operator.replaceAll('_', ' ')} ${shortened(rule.value)}</code> is
    not met: ${has}.`;
}

function shortened(value: string): string {
  return value.length > longestValue ? `${value.slice(0, longestValue)}…` : value;
}
