import type { Database } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { judged, textsOf } from './evaluate-rules.ts';
import { whySkipped } from './skip-marks.ts';
import { tooSlow, type Unmet } from './rules.ts';

/** Why suites were not run on a commit. */

export type Asked = Pick<BuildRequestRow, 'id' | 'event' | 'target_branch' | 'from_fork'> & {
  /** The suites that were asked for; none where all were. */
  named: readonly bigint[];
};

/** A rule that is not met, or a sentence. */
export type Reason = string | Unmet;

export interface LeftOut {
  suite: Pick<SuiteRow, 'id' | 'name'>;
  reason: Reason;
}

/** The account is the one that asks. */
export async function leftOut(
  db: Database,
  account: bigint,
  { projectId, request, commit }: { projectId: bigint; request: Asked; commit: CommitRow },
  built: ReadonlySet<bigint>,
): Promise<LeftOut[]> {
  const suites = await db.read
    .selectFrom('suites')
    .select(['id', 'name'])
    .where('project_id', '=', projectId)
    .orderBy('id')
    .execute();
  const rules = await db.read
    .selectFrom('suite_rules')
    .innerJoin('suites', 'suites.id', 'suite_rules.suite_id')
    .select(['suite_rules.suite_id', 'suite_rules.subject', 'suite_rules.operator', 'suite_rules.value'])
    .where('suites.project_id', '=', projectId)
    .orderBy('suite_rules.id')
    .execute();
  const skipped = whySkipped(commit, request);
  if (skipped !== undefined) {
    return suites.filter(({ id }) => !built.has(id)).map((suite) => ({ suite, reason: skipped }));
  }
  const rulesOf = Map.groupBy(rules, (rule) => rule.suite_id);
  const named = new Set(request.named);
  const others = suites.filter(({ id }) => !built.has(id));
  const asked = others.filter(({ id }) => named.size === 0 || named.has(id));
  const question = {
    suites: asked.map(({ id }) => ({
      id: String(id),
      rules: (rulesOf.get(id) ?? []).map(({ subject, operator, value }) => ({ subject, operator, value })),
    })),
    texts: textsOf(commit, request),
  };
  const answers = new Map((await judged(db, account, question)).map((one) => [one.id, one]));
  return others.map((suite) => {
    const answer = answers.get(String(suite.id));
    if (!answer) return { suite, reason: 'It was not asked for: the build is one of some suites only.' };
    if (answer.unmet) return { suite, reason: answer.unmet };
    if (answer.slow) return { suite, reason: tooSlow(answer.slow) };
    const isNew = suite.id > request.id;
    return { suite, reason: isNew ? 'It was made after this was asked for.' : 'It was not part of this.' };
  });
}
