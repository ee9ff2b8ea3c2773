import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { text } from '../../shared/records/fields.ts';
import { pageOf, type Page } from '../http/paging.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { lastCheck } from '../triggers/connection-checks.ts';
import { countFlaky } from '../results/flaky-tests.ts';
import { newestAttempts, ofLastSeries } from '../lifecycle/rollup.ts';
import { builtCommitRecord, overviewRecord, type RequestLine } from '../../shared/records/overview.ts';
import { listOf } from '../../shared/records/schema.ts';
import { showing } from './builds.ts';
import { startOfMessage, withIdString } from './common.ts';
import { barOf, isRunning, startsOf } from './last-builds.ts';
import { forgeTargetOf } from './forge-connections.ts';
import { forgeHookOf } from './hooks.ts';

const lastRequests = 30;
const mostUnderWay = 100;

export async function overviewOf(db: Queries, id: bigint) {
  const project = await db
    .selectFrom('projects')
    .select(['default_branch', 'build_state', 'passed_since', 'failed_since', 'forge_id'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const isConnected = project.forge_id !== null;
  return {
    default_branch: project.default_branch,
    build_state: project.build_state,
    passed_since: timestampOrNull(project.passed_since),
    failed_since: timestampOrNull(project.failed_since),
    last_requests: await lastBuilt(db, id, project.default_branch),
    under_way: await underWay(db, id),
    without_commit: await withoutCommit(db, id),
    flaky_tests: await countFlaky(db, id),
    last_check: (await lastCheck(db, id)) ?? null,
    ...withIdString('forge_hook_id', isConnected ? ((await forgeHookOf(db, id))?.id ?? null) : null),
    ...withIdString('forge_status_target_id', isConnected ? await forgeTargetOf(db, id) : null),
  };
}

/** The last builds of the default branch, or of the project if that branch is unknown. Oldest first. */
async function lastBuilt(db: Queries, projectId: bigint, branch: string) {
  const requests = db
    .selectFrom('build_requests')
    .select(['id', 'build_state', 'started_at', 'finished_at'])
    .where('project_id', '=', projectId)
    .where('deploy_id', 'is', null);
  // The condition on pull requests repeats the index's.
  const wanted = branch === '' ? requests : requests.where('branch', '=', branch).where('pull_request', 'is', null);
  const newest = await wanted.orderBy('id', 'desc').limit(lastRequests).execute();
  const starts = await startsOf(
    db,
    newest.filter(isRunning).map(({ id }) => id),
  );
  return newest.toReversed().map(({ id, build_state: state, started_at: start, finished_at: end }) => {
    const duration = start === null || end === null ? null : Number(end - start);
    return barOf({ id, build_state: state, duration }, starts);
  });
}

function requestsOf(db: Queries, projectId: bigint) {
  return db
    .selectFrom('build_requests')
    .select(['id', 'commit_ref', 'build_state', 'created_at', 'pull_request'])
    .where('project_id', '=', projectId);
}

type Requests = Awaited<ReturnType<ReturnType<typeof requestsOf>['execute']>>;

function linesOf(requests: Requests): RequestLine[] {
  return requests.map((row) => ({ ...row, ...withIdString('id', row.id), created_at: timestamp(row.created_at) }));
}

async function underWay(db: Queries, projectId: bigint): Promise<RequestLine[]> {
  const requests = await requestsOf(db, projectId)
    // The condition repeats the index's words, so the database uses the index.
    .where(sql<boolean>`build_state in ('enqueued', 'fetching', 'building')`)
    .limit(mostUnderWay)
    .execute();
  // Rows are sorted here. For an ordered query PostgreSQL would read all requests of the project (db/postgres.ts).
  return linesOf(requests.toSorted((a, b) => (a.id > b.id ? -1 : 1)));
}

async function withoutCommit(db: Queries, projectId: bigint): Promise<RequestLine[]> {
  const requests = requestsOf(db, projectId).where('commit_id', 'is', null);
  return linesOf(await requests.orderBy('id', 'desc').limit(5).execute());
}

/** True if the commit was built for the branch, or if a fetch found it there. */
function isOnBranch(branch: string) {
  const inList = `%${JSON.stringify(branch).replaceAll(/[!%_]/g, '!$&')}%`;
  return sql<boolean>`(c.branch = ${branch} or c.branches like ${inList} escape '!')`;
}

async function commitsOf(db: Queries, projectId: bigint, branch: string, page: Page) {
  const commits = db
    .selectFrom('commits as c')
    .select(['c.id', 'c.ref', 'c.build_state', 'c.scm_author_name', 'c.branch'])
    .select(startOfMessage('c.message').as('message'))
    .select((of) =>
      of
        .selectFrom('build_requests as n')
        .select((n) => n.fn.max('n.id').as('id'))
        .whereRef('n.commit_id', '=', 'c.id')
        .as('request_id'),
    )
    .where('c.project_id', '=', projectId);
  const wanted = branch === '' ? commits : commits.where(isOnBranch(branch));
  return onPage(wanted, 'c.id', page).execute();
}

/** Reads requests by ID. With a join, PostgreSQL would compare every request with every commit. */
async function newestRequests(db: Queries, ids: readonly (bigint | null)[]) {
  const wanted = ids.filter((id) => id !== null);
  if (wanted.length === 0) return new Map<bigint | null, never>();
  const columns = ['id', 'created_at', 'pull_request', 'from_fork'] as const;
  const rows = await db.selectFrom('build_requests').select(columns).where('id', 'in', wanted).execute();
  return new Map(
    rows.map((row): [bigint | null, typeof view] => {
      const view = {
        ...withIdString('id', row.id),
        created_at: timestamp(row.created_at),
        pull_request: row.pull_request,
        from_fork: row.from_fork === 1,
      };
      return [row.id, view];
    }),
  );
}

export async function buildsOfCommits(db: Queries, commits: readonly bigint[]) {
  if (commits.length === 0) return [];
  const builds = db.selectFrom('builds').selectAll().where('commit_id', 'in', commits);
  const rows = await builds.where('counts', '=', 1).execute();
  return Array.from(Map.groupBy(rows, ({ commit_id: commit }) => commit).values()).flatMap((some) =>
    ofLastSeries(newestAttempts(some)),
  );
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/overview',
    access: 'public',
    scope: 'projects',
    summary:
      'The status of a project: its default branch and since when it passes or fails, its last build requests, what is ' +
      'running, requests without a commit, how many tests were flaky, the last connection check, and which hook and ' +
      'status target its forge has',
    answer: overviewRecord,
    handle: async ({ db, project }) => overviewOf(db, project.id),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/history',
    access: 'public',
    scope: 'commits',
    summary:
      'List the commits of a project, each with its newest build request and the builds that count for its state',
    query: { branch: text('ref', { description: 'Only commits on this branch' }) },
    paged: true,
    answer: listOf(builtCommitRecord),
    async handle(call) {
      const { db, project, page, query } = call;
      const { items, ...shown } = pageOf(page, await commitsOf(db, project.id, query.branch, page));
      const requests = await newestRequests(
        db,
        items.map(({ request_id: id }) => id),
      );
      const builds = await buildsOfCommits(
        db,
        items.map(({ id }) => id),
      );
      const view = await showing(call, builds);
      const byCommit = Map.groupBy(builds, ({ commit_id: commit }) => commit);
      return {
        ...shown,
        items: items.map(({ request_id: request, ...commit }) => ({
          ...commit,
          ...withIdString('id', commit.id),
          newest_request: requests.get(request) ?? null,
          builds: (byCommit.get(commit.id) ?? []).map(view),
        })),
      };
    },
  }),
];
