import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { variantsOf } from '../shared/matrix.ts';
import type { Tried } from './builds.ts';
import { judgedIn, textsOf } from './evaluate-rules.ts';
import type { Rule } from './rules.ts';
import { whySkipped } from './skip-marks.ts';
import type { WriteContext } from './write-context.ts';

/** Which suites of a project are run on a commit, and in which variants. */

/** A suite with its number of attempts at the commit: one row for each of its rules, or one row without rules. */
export interface SuiteFacts extends Pick<SuiteRow, 'id' | 'steps' | 'tags' | 'allow_failure' | 'retries' | 'matrix'> {
  /** Of the builds without a variant. */
  last: bigint | number | null;
  subject: string | null;
  operator: string | null;
  value: string | null;
}

/** The suites of a project, with what is known about them and a commit. */
export const findSuites = (db: Queries, project: bigint, ref: string): Promise<SuiteFacts[]> =>
  db
    .selectFrom('suites')
    .leftJoin('suite_rules', 'suite_rules.suite_id', 'suites.id')
    .select(['suites.id', 'suites.steps', 'suites.tags', 'suites.allow_failure', 'suites.retries', 'suites.matrix'])
    .select(['suite_rules.subject', 'suite_rules.operator', 'suite_rules.value'])
    .select((of) =>
      of
        .selectFrom('builds')
        .select((within) => within.fn.max('attempt').as('last'))
        .where('builds.commit_id', '=', (commit) =>
          commit
            .selectFrom('commits')
            .select('commits.id')
            .where('commits.project_id', '=', project)
            .where('commits.ref', '=', ref),
        )
        .whereRef('builds.suite_id', '=', 'suites.id')
        .where('builds.variant', '=', sql.lit(''))
        .as('last'),
    )
    .where('suites.project_id', '=', project)
    .orderBy('suites.id')
    .execute();

/**
 * The suites and variants to run. Naming suites in a request leaves out the others; the rules hold in any case. One whose
 * rules could not be judged is among them, with the rule that took too long.
 */
export async function applying(
  context: WriteContext,
  account: bigint,
  rows: readonly Readonly<SuiteFacts>[],
  commit: CommitRow,
  request: BuildRequestRow,
): Promise<Tried[]> {
  if (whySkipped(commit, request) !== undefined) return [];
  const named = new Set(suitesOf(request));
  const suites = Array.from(Map.groupBy(rows, ({ id }) => id)).filter(([id]) => named.size === 0 || named.has(id));
  const question = {
    suites: suites.map(([id, rules]) => ({ id: String(id), rules: rules.flatMap(ruleOf) })),
    texts: textsOf(commit, request),
  };
  const judged = judgedIn(context, account, question);
  const tried = suites.map(async ([, [suite]], at) => {
    const { unmet, slow } = judged[at] ?? {};
    if (!suite || unmet) return [];
    const variants = await triedAnew(context, suite, commit.id);
    return slow ? variants.map((one) => ({ ...one, slow })) : variants;
  });
  return (await Promise.all(tried)).flat();
}

function ruleOf({ subject, operator, value }: Readonly<SuiteFacts>): Rule[] {
  return subject === null ? [] : [{ subject, operator, value } as Rule];
}

/** The suites that a request names; none where it is about all. */
export function suitesOf({ suites }: Pick<BuildRequestRow, 'suites'>): bigint[] {
  return (JSON.parse(suites) as string[]).map(BigInt);
}

const findAttempts = (db: Queries, commit: bigint, suite: bigint) =>
  db
    .selectFrom('builds')
    .select((of) => ['variant', of.fn.max<bigint | number>('attempt').as('last')])
    .where('commit_id', '=', commit)
    .where('suite_id', '=', suite)
    .groupBy('variant')
    .execute();

/** All variants of a suite, to be started anew. Only a suite with a matrix takes another query. */
async function triedAnew({ trx }: WriteContext, suite: Readonly<SuiteFacts>, commit: bigint): Promise<Tried[]> {
  const { id: suiteId, steps, tags, allow_failure: allowFailure, retries, last } = suite;
  const settings = { suiteId, steps, tags, allowFailure, retries };
  const matrix = JSON.parse(suite.matrix) as string[];
  if (matrix.length === 0) return [{ ...settings, variant: '', last: Number(last ?? 0) }];
  const attempts = await findAttempts(trx, commit, suiteId);
  const lastOf = new Map(attempts.map((one) => [one.variant, Number(one.last)]));
  return variantsOf(matrix).map((variant) => ({ ...settings, variant, last: lastOf.get(variant) ?? 0 }));
}
