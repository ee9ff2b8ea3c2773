import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { variableFields } from '../../shared/records/suite.ts';
import { changesAny } from './approvals.ts';

/** Only the owner changes what runs with ref-limited variables. A collaborator's command could print them. */

/** The columns that determine a build's command and the environment of its shells. */
export const runColumns = [
  'command',
  'steps',
  'image',
  'services',
  'files_from_id',
  'matrix',
  'matrix_include',
] as const satisfies (keyof SuiteRow)[];

/**
 * The limits of all variables that a suite's commands can reach. They include the variables of suites that start with
 * its files. `suite` is undefined for a new suite.
 */
export async function limitsOf(db: Queries, projectId: bigint, suite: bigint | 'all' | undefined): Promise<string[][]> {
  const suites = db.selectFrom('suites').select(['id', 'files_from_id']).where('project_id', '=', projectId);
  const all = await suites.execute();
  const takers = new Set(suite === 'all' ? all.map(({ id }) => id) : suite === undefined ? [] : [suite]);
  for (const giver of takers) for (const { id, files_from_id: from } of all) if (from === giver) takers.add(id);
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

/** Refuses a change of what runs, unless the owner makes it. */
export async function refuseGuarded(
  { db, project }: { db: Queries; project: Pick<VisibleProject, 'id' | 'owned'> },
  changed: Partial<SuiteRow>,
  stored?: SuiteRow,
): Promise<void> {
  if (project.owned || (stored && !changesAny(runColumns, changed, stored))) return;
  if ((await limitsOf(db, project.id, stored?.id)).length > 0) throw new ApiError('unauthorized');
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
  if (!project.owned && (await limitsOf(db, project.id, suite.id)).length > 0) throw new ApiError('unauthorized');
}
