import type { Transaction } from '../db/open.ts';
import {
  sealedLocation,
  type BuildRequestRow,
  type BuildRow,
  type CommitRow,
  type EnvironmentVariableRow,
} from '../db/schema.ts';
import { areAmong } from '../../shared/domain/limited-refs.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { WithheldVariable } from '../../shared/records/build.ts';
import { variableFields } from '../../shared/records/suite.ts';
import { ownRefs } from './own-refs.ts';

export interface Variable {
  name: string;
  content: string;
  isSecret: boolean;
}

export interface BuildsVariables {
  variables: Variable[];
  withheld: WithheldVariable[];
  /** The ref limits of each ref-limited variable that the build gets. */
  limits: readonly (readonly string[])[];
}

export const noVariables: BuildsVariables = { variables: [], withheld: [], limits: [] };

type Asking = Pick<BuildRow, 'id' | 'project_id' | 'suite_id' | 'commit_id' | 'limited' | 'withheld'> &
  Pick<BuildRequestRow, 'commit_ref' | 'event' | 'pull_request' | 'from_fork' | 'fetch_ref' | 'fetched_as'> & {
    branch_secrets: number;
  };

/** The author of a fork's code could send secrets anywhere. So could anyone who pushes a branch with a new suite. */
export function whyNoVariables({
  from_fork: fromFork,
  suite_id: suite,
  branch_secrets: trusted,
}: Pick<Asking, 'from_fork' | 'suite_id' | 'branch_secrets'>): 'fork' | 'new_suite' | undefined {
  if (fromFork === 1) return 'fork';
  return suite === null && trusted === 0 ? 'new_suite' : undefined;
}

const ownerOf = (trx: Transaction, project: bigint) =>
  trx.selectFrom('projects').select('owner_id').where('id', '=', project);

interface Compared {
  /** null for a suite that exists only in a file. */
  suites: readonly (bigint | null)[];
  requests: readonly Parameters<typeof ownRefs>[0][];
  commit: Pick<CommitRow, 'branches' | 'project_id'>;
}

/** The suites whose variables would differ between these requests, because some variables are limited to refs. */
export async function haveOtherVariables(
  trx: Transaction,
  { suites, requests, commit: { branches, project_id: project } }: Compared,
): Promise<ReadonlySet<bigint | null>> {
  if (suites.length === 0) return new Set();
  const known = suites.filter((suite) => suite !== null);
  const variables = await trx
    .selectFrom('environment_variables')
    .select(['id', 'project_id', 'suite_id', 'name', 'refs'])
    .where((either) =>
      either.or([
        either('project_id', '=', project),
        either('organisation_id', 'in', ownerOf(trx, project)),
        ...(known.length > 0 ? [either('suite_id', 'in', known)] : []),
      ]),
    )
    .execute();
  // An organisation's come first, so that a project's replace them.
  variables.sort((a, b) => Number(a.project_id !== null) - Number(b.project_id !== null));
  if (variables.every((variable) => refsOf(variable).length === 0)) return new Set();
  const projects = trx.selectFrom('projects').select('branch_secrets').where('id', '=', project);
  const { branch_secrets } = await projects.executeTakeFirstOrThrow();
  const given = await Promise.all(
    requests.map(async (request) => {
      const own = ownRefs(request, { branches });
      const may = await Promise.all(variables.map((variable) => areAmong(own, refsOf(variable))));
      return variables.filter((_, at) => may[at]);
    }),
  );
  const namesOf = (some: typeof variables, suite: bigint | null): string => {
    const byName = new Map(some.flatMap((one) => (one.suite_id === null ? [[one.name, one.id]] : [])));
    for (const one of some) if (suite !== null && one.suite_id === suite) byName.set(one.name, one.id);
    return Array.from(byName.values(), String).toSorted().join();
  };
  const differs = (suite: bigint | null): boolean =>
    whyNoVariables({ from_fork: 0, suite_id: suite, branch_secrets }) === undefined &&
    new Set(given.map((some) => namesOf(some, suite))).size > 1;
  return new Set(suites.filter(differs));
}

/**
 * A suite's variable replaces the project's of the same name, and that replaces the organisation's. The build's record names withheld and ref-limited
 * variables.
 */
export async function variablesFor(
  { trx, vault }: { trx: Transaction; vault: Vault },
  build: Asking,
): Promise<BuildsVariables> {
  const all = trx.selectFrom('environment_variables').selectAll();
  const ofOrganisation = await all.where('organisation_id', 'in', ownerOf(trx, build.project_id)).execute();
  const ofProject = await all.where('project_id', '=', build.project_id).execute();
  const ofSuite = await all.where('suite_id', '=', build.suite_id).execute();
  const present = [...ofOrganisation, ...ofProject, ...ofSuite].map((variable) => ({
    variable,
    refs: refsOf(variable),
  }));
  const why = whyNoVariables(build);
  const commits = trx.selectFrom('commits').select('branches').where('id', '=', build.commit_id);
  const isAnyLimited = why === undefined && present.some(({ refs }) => refs.length > 0);
  const own = isAnyLimited ? ownRefs(build, await commits.executeTakeFirstOrThrow()) : [];
  const known = new Map<string, Promise<boolean>>(); // limited variables mostly share the same limits
  const mayHave = (variable: EnvironmentVariableRow, refs: readonly string[]): Promise<boolean> => {
    const found = known.get(variable.refs) ?? areAmong(own, refs);
    known.set(variable.refs, found);
    return found;
  };
  const byName = new Map<string, EnvironmentVariableRow>();
  const withheld: WithheldVariable[] = [];
  for (const { variable, refs } of present)
    if (why === undefined && (await mayHave(variable, refs))) byName.set(variable.name, variable);
    else withheld.push({ name: variable.name, refs, reason: why ?? (isOfPull(build) ? 'pull_request' : 'ref') });
  const limited = Array.from(byName.values()).filter((variable) => refsOf(variable).length > 0);
  const noted = { limited: JSON.stringify(limited.map(({ name }) => name)), withheld: JSON.stringify(withheld) };
  if (noted.limited !== build.limited || noted.withheld !== build.withheld)
    await trx.updateTable('builds').set(noted).where('id', '=', build.id).execute();
  const variables = Array.from(byName.values(), ({ id, name, content, secret }) => ({
    name,
    content: vault.open(content, sealedLocation({ table: 'environment_variables', column: 'content' }, id)),
    isSecret: secret === 1,
  }));
  return { variables, withheld, limits: limited.map(refsOf) };
}

/**
 * Whether builds of the branch also get the variables that a build gets because of its ref. A SHA or a tag may be on
 * several branches, and the pusher chooses which one the build counts for.
 */
export async function isTrustedBranch(branch: string, { limits }: Pick<BuildsVariables, 'limits'>): Promise<boolean> {
  const may = await Promise.all(limits.map((refs) => areAmong([`refs/heads/${branch}`], refs)));
  return may.every(Boolean);
}

const isOfPull = ({ pull_request: pull, event }: Asking): boolean => pull !== null || event === 'pull_request';

const refsOf = ({ refs }: Pick<EnvironmentVariableRow, 'refs'>): string[] => variableFields.refs.fromColumn(refs);

export const environmentOf = (variables: readonly Variable[]): Record<string, string> =>
  Object.fromEntries(variables.map(({ name, content }) => [name, content]));
