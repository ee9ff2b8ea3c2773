import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { most } from '../../shared/domain/bounds.ts';
import type { Brief } from '../../shared/records/brief.ts';
import type { LastPassed, Origin } from './runs.ts';

type Changed = Pick<Brief['changed'], 'commits' | 'files'>;

/** Requests of a project between the two that are searched. */
const mostSearched = 1000;

/**
 * The commits that were built on the branch since a build that passed, the newest first, and the files that they
 * changed. Commits that were pushed together count as one.
 */
export async function changesSince(
  db: Queries,
  build: Pick<BuildRow, 'project_id' | 'build_request_id'>,
  passed: LastPassed,
  { branch, fork }: Origin,
): Promise<Changed> {
  const between = db
    .selectFrom('build_requests')
    .select(['id', 'commit_id', 'branch', 'from_fork', 'pull_request'])
    .where('project_id', '=', build.project_id)
    .where('id', '>', passed.build_request_id)
    .where('id', '<=', build.build_request_id)
    .where('commit_id', 'is not', null)
    .orderBy('id', 'desc')
    .limit(mostSearched)
    .as('r');
  const rows = await db
    .selectFrom(between)
    .innerJoin('commits as c', 'c.id', 'r.commit_id')
    .leftJoin('request_changes as n', 'n.build_request_id', 'r.id')
    .select(['c.id', 'c.ref', 'c.scm_author_name', 'c.message', 'c.files', 'n.files as changed'])
    .where((of) =>
      of.or([
        of('r.id', '=', build.build_request_id),
        fork === undefined
          ? of.and([of('r.branch', '=', branch), of('r.from_fork', '=', 0)])
          : of.and([of('r.pull_request', '=', fork), of('r.from_fork', '=', 1)]),
      ]),
    )
    .where('c.id', '!=', passed.commit_id)
    .orderBy('r.id', 'desc')
    .limit(most.partsOfBrief)
    .execute();
  const commits = new Map(rows.map((row) => [row.id, row]));
  return {
    commits: Array.from(commits.values(), ({ ref, message, scm_author_name }) => ({
      ref,
      message: message.trimStart().split('\n', 1)[0] ?? '',
      scm_author_name,
    })),
    files: [...new Set(rows.flatMap(({ files, changed }) => JSON.parse(changed ?? files) as string[]))],
  };
}
