import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { variableFields } from '../../shared/records/suite.ts';
import { changesAny } from './approvals.ts';

/**
 * Suites whose builds can have variables that are limited to refs. Only the owner decides what runs in them: otherwise a
 * collaborator could make a command that prints them, and request a build of such a ref.
 */

/** What runs in a build, and what its shells find in their environment. */
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
 * The refs of every limited variable that a suite can get; undefined for a suite that does not exist yet. A suite whose
 * files another begins with decides what runs there, too.
 */
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

/** Refuses to anybody but the owner what changes that which runs. */
export async function refuseGuarded(
  { db, project }: { db: Queries; project: Pick<VisibleProject, 'id' | 'owned'> },
  changed: Partial<SuiteRow>,
  stored?: SuiteRow,
): Promise<void> {
  if (project.owned || (stored && !changesAny(runColumns, changed, stored))) return;
  if ((await limitsOf(db, project.id, stored?.id)).length > 0) throw new ApiError('unauthorized');
}

/** The same for the dependencies of a suite, whose programs and launch commands run in its builds. */
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
