import type { Database } from '../db/open.ts';
import type { BuildRequestRow, CommitRow } from '../db/schema.ts';
import { askedFor, namesAny, ruleOf, suitesFor, type NamedSuites, type SuiteFacts } from './chosen-suites.ts';
import type { BuiltBy } from './file-suites.ts';
import { evaluateRules, textsOf } from './evaluate-rules.ts';
import { whySkipped } from './skip-marks.ts';
import { tooSlow, type Unmet } from './rules.ts';

export type SelectingRequest = Pick<
  BuildRequestRow,
  'id' | 'event' | 'target_branch' | 'from_fork' | 'joined_to_id' | 'head_sha'
> &
  BuiltBy & {
    /** Empty for all suites. */
    named: NamedSuites;
  };

export type Reason = string | Unmet;

export interface SkippedSuite {
  suite: Pick<SuiteFacts, 'suite_id' | 'name'>;
  reason: Reason;
}

const manual = 'It is manual: it runs only if a build request names it.';

/**
 * `account` is the caller's account. `own` are the suites of the request, `ofFirst` the suites of the request that it
 * joined.
 */
export async function skippedSuites(
  db: Database,
  account: bigint,
  { projectId, request, commit }: { projectId: bigint; request: SelectingRequest; commit: CommitRow },
  { own: built, ofFirst }: { own: ReadonlySet<string>; ofFirst: ReadonlySet<string> },
): Promise<SkippedSuite[]> {
  const rows = await suitesFor(db.read, projectId, commit, request);
  const suites = Array.from(Map.groupBy(rows, ({ id }) => id).values()).flatMap(([first]) => first ?? []);
  const skipped = whySkipped(commit, request);
  if (skipped !== undefined) {
    return suites.filter(({ name }) => !built.has(name)).map((suite) => ({ suite, reason: skipped }));
  }
  const others = suites.filter(({ name }) => !built.has(name));
  const asked = askedFor(suites, request.named).filter(({ name }) => !built.has(name));
  const question = {
    suites: asked.map(({ id }) => ({
      id: String(id),
      rules: rows.filter((row) => row.id === id).flatMap(ruleOf),
    })),
    texts: textsOf(commit, request),
  };
  const answers = new Map((await evaluateRules(db, account, question)).map((one) => [one.id, one]));
  return others.map((suite) => {
    const answer = answers.get(String(suite.id));
    if (!answer && suite.manual === 1 && !namesAny(request.named)) return { suite, reason: manual };
    if (!answer) return { suite, reason: 'It was not requested: the request names other suites only.' };
    if (answer.unmet) return { suite, reason: answer.unmet };
    if (answer.slow) return { suite, reason: tooSlow(answer.slow) };
    if (ofFirst.has(suite.name)) return { suite, reason: `Build request ${request.joined_to_id} runs it.` };
    const isNew = suite.suite_id === suite.id && suite.id > request.id;
    return { suite, reason: isNew ? 'It was created after the request.' : 'It was not part of the request.' };
  });
}
