import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, SuiteRow } from '../db/schema.ts';
import { takenBy } from '../../shared/domain/files-from.ts';
import { variantsOf } from '../../shared/domain/matrix.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { matrixFields, suiteFields } from '../../shared/records/suite.ts';
import { columnsInVariant } from '../../shared/records/variant-settings.ts';
import { allowedFailures, type PlannedBuild } from './builds.ts';
import { suitesInFile, type BuiltBy } from './file-suites.ts';
import { evaluateRulesIn, textsOf } from './evaluate-rules.ts';
import { idTokensIn } from './id-tokens.ts';
import { deploysGroup, suitesGroup } from './held-back.ts';
import { priorityOf } from './priorities.ts';
import type { Rule } from './rules.ts';
import { whySkipped } from './skip-marks.ts';
import type { WriteContext } from './write-context.ts';

const matrixColumns = ['matrix', 'matrix_include', 'matrix_exclude', 'matrix_allow_failure'] as const;
const holdColumns = [
  'needs',
  'files_from_id',
  'files_from_name',
  'files_from',
  'approval',
  'approvers',
  'manual',
  'concurrency_group',
] as const;
const suiteColumns = [
  'id',
  'name',
  'steps',
  'tags',
  'allow_failure',
  'retries',
  'resume',
  'id_tokens',
  'priority',
  'reuse',
  ...matrixColumns,
  ...holdColumns,
] as const;

/** One row per rule of the suite, or a single row if the suite has no rules. */
export interface SuiteFacts extends Pick<SuiteRow, (typeof suiteColumns)[number]> {
  suite_id: bigint | null;
  /** The last attempt without a variant. */
  last: bigint | number | null;
  subject: string | null;
  operator: string | null;
  value: string | null;
}

const findSuites = (db: Queries, project: bigint, ref: string): Promise<SuiteFacts[]> =>
  db
    .selectFrom('suites')
    .leftJoin('suite_rules', 'suite_rules.suite_id', 'suites.id')
    .select(['suites.id as suite_id', ...suiteColumns.map((column) => `suites.${column}` as const)])
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

export async function suitesFor(db: Queries, project: bigint, commit: CommitRow, file: BuiltBy): Promise<SuiteFacts[]> {
  if (file.config_digest === '') return findSuites(db, project, commit.ref);
  const attempts = await db
    .selectFrom('builds')
    .select((of) => ['suite_name', of.fn.max<bigint | number>('attempt').as('last')])
    .where('commit_id', '=', commit.id)
    .where('variant', '=', '')
    .groupBy('suite_name')
    .execute();
  const lasts = new Map(attempts.map(({ suite_name: name, last }) => [name, last]));
  const suites = await suitesInFile(db, project, file.config_digest);
  const none = { subject: null, operator: null, value: null };
  return suites.flatMap(({ rules, ...suite }) =>
    (rules.length === 0 ? [none] : rules).map((rule) => ({ ...suite, ...rule, last: lasts.get(suite.name) ?? null })),
  );
}

export interface Chosen {
  planned: PlannedBuild[];
  leftOut: { suite: Readonly<SuiteFacts>; rule: Rule }[];
}
export const needsOf = ({ needs }: Pick<SuiteRow, 'needs'>): bigint[] => suiteFields.needs.fromColumn(needs);

export interface NamedSuites {
  ids: readonly bigint[];
  names: readonly string[];
}

export const namesAny = ({ ids, names }: NamedSuites): boolean => ids.length > 0 || names.length > 0;

/**
 * The named suites and the suites that they need, except needed suites that are manual. Without names, all suites
 * except manual ones.
 */
export function askedFor<Suite extends Pick<SuiteFacts, 'id' | 'suite_id' | 'name' | 'needs' | 'manual'>>(
  suites: readonly Suite[],
  named: NamedSuites,
): Suite[] {
  if (!namesAny(named)) return suites.filter(({ manual }) => manual === 0);
  const byId = new Map(suites.map((suite) => [suite.id, suite]));
  const asked = new Set(suites.filter((suite) => isNamed(suite, named)).map(({ id }) => id));
  for (const id of asked)
    for (const needed of needsOf(byId.get(id) ?? { needs: '[]' }))
      if (byId.get(needed)?.manual === 0) asked.add(needed);
  return suites.filter(({ id }) => asked.has(id));
}

/** A suite whose rules took too long is included, with the slow rule. */
export async function applying(
  context: WriteContext,
  account: bigint,
  rows: readonly Readonly<SuiteFacts>[],
  commit: CommitRow,
  request: BuildRequestRow,
): Promise<Chosen> {
  if (whySkipped(commit, request) !== undefined) return { planned: [], leftOut: [] };
  const named = suitesOf(request);
  const suites = Array.from(Map.groupBy(askedFor(rows, named), ({ id }) => id));
  const deploy = await deployFor(context, request);
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  const question = {
    suites: suites.map(([id, rules]) => ({ id: String(id), rules: rules.flatMap(ruleOf) })),
    texts: textsOf(commit, request),
  };
  const results = evaluateRulesIn(context, account, question);
  const tried = suites.map(async ([, [suite]], at) => {
    const { unmet, slow } = results[at] ?? {};
    if (!suite || unmet) return [];
    const priority = priorityOf(suite.priority, request.priority);
    const made = await triedAnew(context, { ...suite, priority }, commit.id, names);
    const isDeploying = deploy && isNamed(suite, named);
    const variants = made.map((one) => ({
      ...one,
      deployId: request.deploy_id,
      mayReuse: suite.reuse === 'on' && request.reuse === 1 && request.deploy_id === null,
      group: one.group || (isDeploying ? deploy.group : ''),
    }));
    return slow ? variants.map((one) => ({ ...one, slow })) : variants;
  });
  const leftOut = suites.flatMap(([, [suite]], at) => {
    const { unmet } = results[at] ?? {};
    return suite && unmet ? [{ suite, rule: unmet.rule }] : [];
  });
  return { planned: (await Promise.all(tried)).flat(), leftOut };
}

/** The deploys of one strategy form a group, so they run one at a time. */
async function deployFor({ trx }: WriteContext, { deploy_id: id }: BuildRequestRow) {
  if (id === null) return undefined;
  const deploys = trx.selectFrom('deploys').select('deploy_strategy_id').where('id', '=', id);
  const { deploy_strategy_id: strategy } = await deploys.executeTakeFirstOrThrow();
  return { group: deploysGroup(strategy) };
}

export function askForFiles(rows: readonly Readonly<SuiteFacts>[], request: BuildRequestRow): boolean {
  return askedFor(rows, suitesOf(request)).some(({ subject }) => subject === 'commit.files');
}

export function ruleOf({ subject, operator, value }: Readonly<SuiteFacts>): Rule[] {
  return subject === null ? [] : [{ subject, operator, value } as Rule];
}

export function suitesOf(request: Pick<BuildRequestRow, 'suites' | 'suite_names'>): NamedSuites {
  const ids = (JSON.parse(request.suites) as string[]).map(BigInt);
  return { ids, names: JSON.parse(request.suite_names) as string[] };
}

function isNamed({ suite_id: id, name }: Pick<SuiteFacts, 'suite_id' | 'name'>, { ids, names }: NamedSuites): boolean {
  return (id !== null && ids.includes(id)) || names.includes(name);
}

const findAttempts = (db: Queries, commit: bigint, suite: string) =>
  db
    .selectFrom('builds')
    .select((of) => ['variant', of.fn.max<bigint | number>('attempt').as('last')])
    .where('commit_id', '=', commit)
    .where('suite_name', '=', suite)
    .groupBy('variant')
    .execute();

async function triedAnew(
  { trx }: WriteContext,
  suite: Readonly<SuiteFacts>,
  commit: bigint,
  names: ReadonlyMap<bigint, string>,
): Promise<Omit<PlannedBuild, 'deployId'>[]> {
  const { suite_id: suiteId, name: suiteName, steps, tags, retries, resume, priority, last } = suite;
  const { approval, approvers, manual, concurrency_group: group } = suite;
  const needs = needsOf(suite).flatMap((id) => names.get(id) ?? []);
  const gates = { approval, approvers, manual, group: suitesGroup(group) };
  const hasIdTokens = idTokensIn(suite).length > 0;
  const settings = { suiteId, suiteName, steps, tags, retries, resume, priority, needs, hasIdTokens, ...gates };
  const files = filesTakenBy(suite, names, needs);
  const variants = variantsOf(valuesIn(matrixFields, suite));
  const allowFailure = allowedFailures(suite);
  const isPlain = variants.every((variant) => variant === '');
  const attempts = isPlain ? [{ variant: '', last: last ?? 0 }] : await findAttempts(trx, commit, suiteName);
  const lastOf = new Map(attempts.map((one) => [one.variant, Number(one.last)]));
  return variants.map((variant) => ({
    ...columnsInVariant(settings, variant),
    ...files(variant),
    variant,
    allowFailure: allowFailure(variant),
    last: lastOf.get(variant) ?? 0,
  }));
}

/** Names with values of the matrix are looked up among the needs. */
function filesTakenBy(
  { files_from_id: from, files_from_name: pattern, files_from: list }: Readonly<SuiteFacts>,
  names: ReadonlyMap<bigint, string>,
  needs: readonly string[],
): (variant: string) => Pick<PlannedBuild, 'filesFrom' | 'lentFrom'> {
  const inNeeds = (name: string, variant: string): string[] =>
    takenBy(name, variant).filter((one) => needs.includes(one));
  const single = names.get(from ?? 0n) ?? '';
  const several = suiteFields.files_from.fromColumn(list);
  return (variant) => ({
    filesFrom: pattern === '' ? single : (inNeeds(pattern, variant)[0] ?? ''),
    lentFrom: several.flatMap((one) => (one.includes('$') ? inNeeds(one, variant) : (names.get(BigInt(one)) ?? []))),
  });
}
