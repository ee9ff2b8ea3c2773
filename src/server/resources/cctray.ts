import { sql } from 'kysely';
import { accountRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import { escapeXml } from '../../shared/lib/xml.ts';
import { string } from '../../shared/records/schema.ts';
import { projectsOf } from './projects.ts';

/** Feeds in the format of cctray.org, which many desktop and wall monitors read. */

const outcomes: Record<string, string> = { passed: 'Success', failed: 'Failure', errored: 'Exception' };

interface LastCommit {
  project_id: bigint;
  ref: string;
  build_state: string;
  finished_at: bigint | number | null;
}

/** The newest finished commit of the default branch, or of all branches if the default branch was never built. */
async function lastCommits(db: Queries, ids: bigint[]): Promise<Map<bigint, LastCommit>> {
  const rows = await db
    .selectFrom('projects')
    .leftJoin('commits as default_head', 'default_head.id', 'projects.default_head_id')
    .innerJoin('commits', (join) =>
      join.on('commits.id', '=', (of) =>
        of
          .selectFrom('commits as over')
          .select('over.id')
          .whereRef('over.project_id', '=', 'projects.id')
          .where('over.build_state', 'in', ['passed', 'failed', 'errored', 'cancelled'])
          .where((where) =>
            where.or([
              where('default_head.branch', 'is', null),
              where('over.branch', '=', where.ref('default_head.branch')),
            ]),
          )
          .orderBy('over.id', 'desc')
          .limit(1),
      ),
    )
    .select(['commits.project_id', 'commits.ref', 'commits.build_state'])
    .select((of) =>
      of
        .selectFrom('builds')
        .select((within) => within.fn.max('finished_at').as('at'))
        .whereRef('builds.commit_id', '=', 'commits.id')
        .where('builds.counts', '=', 1)
        .as('finished_at'),
    )
    .where('projects.id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.project_id, row]));
}

/** Projects with a request whose fetch is queued or running. */
async function fetchingFor(db: Queries, ids: bigint[]): Promise<Set<bigint>> {
  const rows = await db
    .selectFrom('build_requests')
    .select(['project_id', 'build_state'])
    .where('project_id', 'in', ids)
    // The condition repeats the index's words, so the database uses the index.
    .where(sql<boolean>`build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building')`)
    .execute();
  const fetching = rows.filter(({ build_state: state }) => state === 'enqueued' || state === 'fetching');
  return new Set(fetching.map(({ project_id: id }) => id));
}

function activityOf({ id, build_state: state }: Pick<ProjectRow, 'id' | 'build_state'>, fetching: Set<bigint>): string {
  if (state === 'building' || state === 'waiting_for_builds') return 'Building';
  return fetching.has(id) ? 'CheckingModifications' : 'Sleeping';
}

/** Projects per query: databases limit the number of values. */
const atOnce = 500;

async function* feed(db: Queries, projects: Awaited<ReturnType<typeof projectsOf>>, origin: string) {
  yield '<?xml version="1.0" encoding="UTF-8"?>\n<Projects>\n';
  for (let from = 0; from < projects.length; from += atOnce) {
    const some = projects.slice(from, from + atOnce);
    const ids = some.map(({ id }) => id);
    const [commits, fetching] = await Promise.all([lastCommits(db, ids), fetchingFor(db, ids)]);
    yield some
      .map((project) => {
        const last = commits.get(project.id);
        const attributes = {
          name: project.name,
          activity: activityOf(project, fetching),
          lastBuildStatus: outcomes[last?.build_state ?? ''] ?? 'Unknown',
          lastBuildLabel: last?.ref.slice(0, 10) ?? '',
          lastBuildTime: new Date(Number(last?.finished_at ?? project.created_at)).toISOString(),
          webUrl: `${origin}/ui/projects/${project.id}`,
        };
        const written = Object.entries(attributes).map(([name, value]) => `${name}="${escapeXml(value)}"`);
        return `  <Project ${written.join(' ')}/>\n`;
      })
      .join('');
  }
  yield '</Projects>\n';
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/cctray.xml',
    access: 'both',
    scope: 'projects',
    forSomeProjects: true,
    summary: 'The states of your projects, in the format of CCTray and similar monitors',
    streams: ['application/xml'],
    answer: string,
    async handle({ db, database, caller, origin }) {
      const projects = await projectsOf(db, caller);
      return {
        contentType: 'application/xml; charset=utf-8',
        body: feed(database.read, projects, origin),
      };
    },
  }),
];
