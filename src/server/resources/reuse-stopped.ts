import { projectsSeenBy } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { ReuseStopped } from '../../shared/records/overview.ts';
import { withIdString } from './common.ts';

const mostShown = 20;

/** Of the caller's projects, the newest first. */
export async function reuseStoppedOf(
  db: Queries,
  caller: Parameters<typeof projectsSeenBy>[1],
): Promise<ReuseStopped[]> {
  const rows = await projectsSeenBy(db, caller)
    .innerJoin('reuse_stops as s', 's.project_id', 'p.id')
    .leftJoin('suites', (join) =>
      join.onRef('suites.project_id', '=', 's.project_id').onRef('suites.name', '=', 's.suite_name'),
    )
    .select(['s.id', 's.project_id', 's.suite_name', 'p.name as project_name', 'suites.id as suite_id'])
    .orderBy('s.id', 'desc')
    .limit(mostShown)
    .execute();
  return rows.map(({ id, project_id: project, suite_id: suite, ...row }) => ({
    ...withIdString('project_id', project),
    project_name: row.project_name,
    ...withIdString('suite_id', suite),
    suite_name: row.suite_name,
    ...withIdString('build_id', id),
  }));
}
