import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { variantsOf } from '../shared/matrix.ts';
import { valuesIn } from '../records/fields.ts';
import { matrixFields, suiteFields } from '../records/suite.ts';
import { allowedFailures, type Tried } from './builds.ts';
import { evaluateRulesIn, textsOf } from './evaluate-rules.ts';
import type { Rule } from './rules.ts';
import { whySkipped } from './skip-marks.ts';
import type { WriteContext } from './write-context.ts';

/** Which suites of a project are run on a commit, and in which variants. */

const matrixColumns = ['matrix', 'matrix_include', 'matrix_exclude', 'matrix_allow_failure'] as const;
const holdColumns = ['needs', 'approval', 'manual', 'concurrency_group'] as const;
const suiteColumns = ['id', 'name', 'tags', 'allow_failure', 'retries', ...matrixColumns, ...holdColumns] as const;

/** A suite with its number of attempts at the commit: one row for each of its rules, or one row without rules. */
export interface SuiteFacts extends Pick<SuiteRow, (typeof suiteColumns)[number]> {
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
    .select(suiteColumns.map((column) => `suites.${column}` as const))
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
        .whereRef('builds.suite_name', '=', 'suites.name')
        .where('builds.variant', '=', sql.lit(''))
        .as('last'),
    )
    .where('suites.project_id', '=', project)
    .orderBy('suites.id')
    .execute();

export const needsOf = ({ needs }: Pick<SuiteRow, 'needs'>): bigint[] => suiteFields.needs.fromColumn(needs);

/**
 * What a request is about: the suites that it names with those that they need, or all. A suite that is manual has to be
 * named.
 */
export function askedFor<Suite extends Pick<SuiteRow, 'id' | 'needs' | 'manual'>>(
  suites: readonly Suite[],
  named: readonly bigint[],
): Suite[] {
  if (named.length === 0) return suites.filter(({ manual }) => manual === 0);
  const byId = new Map(suites.map((suite) => [suite.id, suite]));
  const asked = new Set(named);
  for (const id of asked)
    for (const needed of needsOf(byId.get(id) ?? { needs: '[]' }))
      if (byId.get(needed)?.manual === 0) asked.add(needed);
  return suites.filter(({ id }) => asked.has(id));
}

/**
 * The suites and variants to run. Naming suites in a request leaves out all others that these do not need; the rules hold
 * in any case. One whose rules could not be judged is among them, with the rule that took too long.
 */
export async function applying(
  context: WriteContext,
  account: bigint,
  rows: readonly Readonly<SuiteFacts>[],
  commit: CommitRow,
  request: BuildRequestRow,
): Promise<Tried[]> {
  if (whySkipped(commit, request) !== undefined) return [];
  const named = suitesOf(request);
  const suites = Array.from(Map.groupBy(askedFor(rows, named), ({ id }) => id));
  const deploy = await deployFor(context, request);
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  const question = {
    suites: suites.map(([id, rules]) => ({ id: String(id), rules: rules.flatMap(ruleOf) })),
    texts: textsOf(commit, request),
  };
  const judged = evaluateRulesIn(context, account, question);
  const tried = suites.map(async ([, [suite]], at) => {
    const { unmet, slow } = judged[at] ?? {};
    if (!suite || unmet) return [];
    const made = await triedAnew(context, suite, commit.id, names);
    const isDeploying = deploy && named.includes(suite.id);
    const variants = made.map((one) => ({
      ...one,
      deployId: request.deploy_id,
      group: one.group || (isDeploying ? deploy.group : ''),
    }));
    return slow ? variants.map((one) => ({ ...one, slow })) : variants;
  });
  return (await Promise.all(tried)).flat();
}

/** The deploy that a request is for: those of one strategy are a group, so they run one at a time. */
async function deployFor({ trx }: WriteContext, { deploy_id: id }: BuildRequestRow) {
  if (id === null) return undefined;
  const deploys = trx.selectFrom('deploys').select('deploy_strategy_id').where('id', '=', id);
  const { deploy_strategy_id: strategy } = await deploys.executeTakeFirstOrThrow();
  return { group: `deploy strategy ${strategy}` };
}

function ruleOf({ subject, operator, value }: Readonly<SuiteFacts>): Rule[] {
  return subject === null ? [] : [{ subject, operator, value } as Rule];
}

/** The suites that a request names; none where it is about all. */
export function suitesOf({ suites }: Pick<BuildRequestRow, 'suites'>): bigint[] {
  return (JSON.parse(suites) as string[]).map(BigInt);
}

const findAttempts = (db: Queries, commit: bigint, suite: string) =>
  db
    .selectFrom('builds')
    .select((of) => ['variant', of.fn.max<bigint | number>('attempt').as('last')])
    .where('commit_id', '=', commit)
    .where('suite_name', '=', suite)
    .groupBy('variant')
    .execute();

/** All variants of a suite, to be started anew. Only a suite with a matrix takes another query. */
async function triedAnew(
  { trx }: WriteContext,
  suite: Readonly<SuiteFacts>,
  commit: bigint,
  names: ReadonlyMap<bigint, string>,
): Promise<Omit<Tried, 'deployId'>[]> {
  const { id: suiteId, name: suiteName, tags, retries, last, approval, concurrency_group: group } = suite;
  const needs = needsOf(suite).flatMap((id) => names.get(id) ?? []);
  const settings = { suiteId, suiteName, tags, retries, needs, approval, group };
  const variants = variantsOf(valuesIn(matrixFields, suite));
  const allowFailure = allowedFailures(suite);
  const isPlain = variants.every((variant) => variant === '');
  const attempts = isPlain ? [{ variant: '', last: last ?? 0 }] : await findAttempts(trx, commit, suiteName);
  const lastOf = new Map(attempts.map((one) => [one.variant, Number(one.last)]));
  return variants.map((variant) => ({
    ...settings,
    variant,
    allowFailure: allowFailure(variant),
    last: lastOf.get(variant) ?? 0,
  }));
}
