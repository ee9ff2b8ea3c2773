import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { needsOf } from '../lifecycle/chosen-suites.ts';
import { idTokensIn } from '../lifecycle/id-tokens.ts';
import { ApiError } from '../../shared/errors.ts';
import { suiteFields, variableFields } from '../../shared/records/suite.ts';
import { changesAny } from './approvals.ts';

/**
 * Only the owner changes what runs with ref-limited variables, or with tokens of the build. A collaborator's command
 * could print the variables, and use a token for any ref.
 */

/** The columns that determine a build's command and the environment of its shells. */
export const runColumns = [
  'command',
  'steps',
  'image',
  'services',
  'files_from_id',
  'files_from_name',
  'files_from',
  'matrix',
  'matrix_include',
] as const satisfies (keyof SuiteRow)[];
const guardedColumns = [...runColumns, 'id_tokens'] as const;

/** Undefined for a new suite. */
type Behind = bigint | 'all' | undefined;

/** A name with values of the matrix may be that of any needed suite. */
function mayTakeFrom(
  suite: Pick<SuiteRow, 'needs' | 'files_from_id' | 'files_from_name' | 'files_from'>,
  giver: bigint,
) {
  const { files_from_id: from, files_from_name: name, files_from: list } = suite;
  const hasNames = name !== '' || list.includes('$');
  const ids = [suiteFields.files_from.fromColumn(list), hasNames ? needsOf(suite).map(String) : []].flat();
  return from === giver || ids.includes(String(giver));
}

/** The suite, if it exists, and the suites that start with its files. */
async function suitesBehind(db: Queries, projectId: bigint, suite: Behind) {
  const suites = db
    .selectFrom('suites')
    .select(['id', 'needs', 'files_from_id', 'files_from_name', 'files_from', 'id_tokens']);
  const all = await suites.where('project_id', '=', projectId).execute();
  if (suite === 'all') return all;
  const takers = new Set(suite === undefined ? [] : [suite]);
  for (const giver of takers) for (const one of all) if (mayTakeFrom(one, giver)) takers.add(one.id);
  return all.filter(({ id }) => takers.has(id));
}

/**
 * The limits of all variables that a suite's commands can reach. They include the variables of suites that start with
 * its files.
 */
export async function limitsOf(db: Queries, projectId: bigint, suite: Behind): Promise<string[][]> {
  const takers = (await suitesBehind(db, projectId, suite)).map(({ id }) => id);
  const limited = db.selectFrom('environment_variables').select('refs').where('refs', '<>', '[]');
  const rows = await limited
    .where((of) =>
      of.or([
        of('project_id', '=', projectId),
        of('organisation_id', 'in', of.selectFrom('projects').select('owner_id').where('id', '=', projectId)),
        of('suite_id', 'in', [0n, ...takers]), // no suite has the ID 0
      ]),
    )
    .execute();
  return rows.map(({ refs }) => variableFields.refs.fromColumn(refs));
}

/** True if a suite's commands reach variables that are limited to refs, or tokens that other services believe. */
async function isGuarded(db: Queries, projectId: bigint, suiteId: bigint | undefined): Promise<boolean> {
  const suites = await suitesBehind(db, projectId, suiteId);
  return suites.some((suite) => idTokensIn(suite).length > 0) || (await limitsOf(db, projectId, suiteId)).length > 0;
}

/** Refuses a change of what runs, unless the owner makes it. */
export async function refuseGuarded(
  { db, project }: { db: Queries; project: Pick<VisibleProject, 'id' | 'owned'> },
  changed: Partial<SuiteRow>,
  stored?: SuiteRow,
): Promise<void> {
  if (project.owned || (stored && !changesAny(guardedColumns, changed, stored))) return;
  if (idTokensIn(changed).length > 0 || (await isGuarded(db, project.id, stored?.id)))
    throw new ApiError('unauthorized');
}

/** Refuses changed dependencies too, because their programs and launch commands run in the builds. */
export async function refuseSoftware({
  db,
  project,
  suite,
}: {
  db: Queries;
  project: Pick<VisibleProject, 'id' | 'owned'>;
  suite: Pick<SuiteRow, 'id'>;
}): Promise<void> {
  if (!project.owned && (await isGuarded(db, project.id, suite.id))) throw new ApiError('unauthorized');
}
