import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { variableFields } from '../../shared/records/suite.ts';
import { changesAny } from './approvals.ts';

/** Only the owner decides what runs with ref-limited variables: a collaborator's command could print them. */

/** The command of a build, and the environment of its shells. */
export const runColumns = [
  'command',
  'steps',
  'image',
  'services',
  'files_from_id',
  'matrix',
  'matrix_include',
] as const satisfies (keyof SuiteRow)[];

/** Suites that begin with this one's files count too. `suiteId` is undefined for a new suite. */
export async function limitsOf(db: Queries, projectId: bigint, suiteId: bigint | undefined): Promise<string[][]> {
  const suites = db.selectFrom('suites').select(['id', 'files_from_id']).where('project_id', '=', projectId);
  const takers = new Set(suiteId === undefined ? [] : [suiteId]);
  const all = await suites.execute();
  for (const giver of takers) for (const { id, files_from_id: from } of all) if (from === giver) takers.add(id);
  const limited = db.selectFrom('environment_variables').select('refs').where('refs', '<>', '[]');
  const rows = await limited
    .where((of) => of.or([of('project_id', '=', projectId), of('suite_id', 'in', [0n, ...takers])])) // no suite has the number 0
    .execute();
  return rows.map(({ refs }) => variableFields.refs.fromColumn(refs));
}

/** Only the owner may change what runs. */
export async function refuseGuarded(
  { db, project }: { db: Queries; project: Pick<VisibleProject, 'id' | 'owned'> },
  changed: Partial<SuiteRow>,
  stored?: SuiteRow,
): Promise<void> {
  if (project.owned || (stored && !changesAny(runColumns, changed, stored))) return;
  if ((await limitsOf(db, project.id, stored?.id)).length > 0) throw new ApiError('unauthorized');
}

/** Programs and launch commands of dependencies run in the builds too. */
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
