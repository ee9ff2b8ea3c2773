import type { Call } from '../api/call.ts';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow, ProjectRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { described, flag, text } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import { buildRecord, fetchedBuildRecord, type WithheldVariable } from '../../shared/records/build.ts';
import { listOf } from '../../shared/records/schema.ts';
import { loadCommit } from './commits.ts';
import { cancelBuilds } from '../lifecycle/builds.ts';
import { stepNames } from '../lifecycle/build-steps.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import { heldReasons } from '../lifecycle/held-back.ts';
import { provedBy } from '../lifecycle/kept-builds.ts';
import { approveBuild, restartBuild } from '../lifecycle/reruns.ts';
import { newestAttempts, ofLastSeries } from '../lifecycle/rollup.ts';
import { buildView } from '../views/build.ts';
import { mayApprove } from './approvals.ts';
import { writeContextOf, orNotFound } from './common.ts';
import { recordFirehose } from './firehoses.ts';
import { followedBuild } from './followed.ts';
import { keptUntil } from './kept-files.ts';
import { loggedInProject, logRoutes } from './logs.ts';
import { reasonsToWait } from './waiting.ts';

const mayWait = ({ build_state: state, held }: BuildRow): boolean =>
  held === '' && (state === 'enqueued' || state === 'running');

export async function showing(
  call: Pick<Call, 'database'> & { db: Queries; project: Pick<ProjectRow, 'owner_id'> },
  rows: readonly BuildRow[],
) {
  const reason = await reasonsToWait(call, { account: call.project.owner_id, rows, mayWait });
  const held = await heldReasons(call.db, rows);
  return (row: BuildRow) => buildView(row, held.get(row.id) ?? reason(row));
}

export async function findBuild(db: Queries, projectId: bigint, id: bigint): Promise<BuildRow> {
  const builds = db.selectFrom('builds').selectAll().where('project_id', '=', projectId);
  return orNotFound(await builds.where('id', '=', id).executeTakeFirst());
}

/** The build that made the artifacts, tests and summary of a build. */
export async function findMaker(call: {
  db: Queries;
  project: Pick<ProjectRow, 'id'>;
  params: { build_id: bigint };
}): Promise<bigint> {
  return provedBy(await findBuild(call.db, call.project.id, call.params.build_id));
}

export function withheldView({ withheld }: BuildRow): { withheld_variables: WithheldVariable[] } {
  return { withheld_variables: JSON.parse(withheld) as WithheldVariable[] };
}

async function countedBuilds(db: Queries, commitId: bigint): Promise<bigint[]> {
  const rows = await db
    .selectFrom('builds')
    .select(['id', 'suite_id', 'suite_name', 'variant', 'attempt', 'series'])
    .where('commit_id', '=', commitId)
    .where('counts', '=', 1)
    .execute();
  return ofLastSeries(newestAttempts(rows)).map(({ id }) => id);
}

export const logged = loggedInProject({
  table: 'builds',
  path: '/projects/:project_id/builds/:build_id',
  param: 'build_id',
  scope: 'commits',
  name: 'a build',
});

/** A service has the states of its build, and its own log. */
export const loggedService = loggedInProject({
  table: 'services',
  path: '/projects/:project_id/builds/:build_id/services/:service_name',
  param: 'build_id',
  scope: 'commits',
  name: 'a service of a build',
});

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds',
    access: 'public',
    scope: 'commits',
    summary: 'List the builds of a project, every attempt of every suite on every commit',
    paged: true,
    answer: listOf(buildRecord),
    async handle(call) {
      const { db, project, page } = call;
      const builds = db.selectFrom('builds').selectAll().where('project_id', '=', project.id);
      const rows = await onPage(builds, 'id', page).execute();
      return pageOf(page, rows.map(await showing(call, rows)));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id/builds',
    access: 'public',
    scope: 'commits',
    summary:
      'List the builds of a commit, every attempt of every suite and variant; with counted, only those that count for its ' +
      'state: the newest attempt of each suite, in the variants with which it was last started',
    query: { counted: described(flag(), 'Only those that count for the state of the commit') },
    paged: true,
    answer: listOf(buildRecord),
    load: loadCommit,
    async handle(call) {
      const { db, commit, page, query } = call;
      const all = db.selectFrom('builds').selectAll().where('commit_id', '=', commit.id);
      const ids = query.counted ? await countedBuilds(db, commit.id) : undefined;
      const builds = ids ? all.where('id', 'in', [0n, ...ids]) : all; // no build has the number 0
      const rows = await onPage(builds, 'id', page).execute();
      return pageOf(page, rows.map(await showing(call, rows)));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id',
    access: 'public',
    scope: 'commits',
    summary: 'Fetch a build',

    answer: fetchedBuildRecord,
    async handle(call) {
      const { db, project, params } = call;
      const build = await findBuild(db, project.id, params.build_id);
      const show = await showing(call, [build]);
      return { ...show(build), ...(await keptUntil(call, build)), ...withheldView(build) };
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/builds/:build_id/cancel',
    access: 'developer',
    scope: 'build_requests_create',
    summary: 'Stop a build',
    answer: buildRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, params } = call;
      await cancelBuilds(writeContextOf(call), [await findBuild(db, project.id, params.build_id)]);
      const stopped = await findBuild(db, project.id, params.build_id);
      return (await showing(call, [stopped]))(stopped);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/builds/:build_id/restart',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Start another attempt at the suite and variant of a finished build',
    creates: 'work',
    body: {
      from_step: text('name', {
        description:
          'The step to start at, with the files and variables that the steps before it left in this build; by default the first',
      }),
    },
    answer: buildRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, params, caller, input } = call;
      const context = writeContextOf(call);
      const build = await findBuild(db, project.id, params.build_id);
      orNotFound(await settingsOf(db, build));
      const [first, ...later] = stepNames(build);
      const fromStep = input.from_step === first ? '' : input.from_step;
      if (fromStep !== '' && !later.includes(fromStep)) throw new ApiError('invalid_format', 'from_step');
      const next = await restartBuild(context, project, build, {
        by: caller.id,
        fromStep,
        traceparent: call.headers.traceparent,
      });
      if (!next) throw new ApiError('resource_temporary_unavailable');
      const made = await findBuild(db, project.id, next.id);
      return (await showing(call, [made]))(made);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/builds/:build_id/approve',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Approve a build that waits for it',
    answer: buildRecord,
    audit: {
      action: 'build.approved',
      subject: ({ params }) => ({ id: params.build_id, name: '' }),
    },
    async handle(call) {
      const { db, project, params, caller, headers } = call;
      const build = await findBuild(db, project.id, params.build_id);
      // Without named approvers, even the requester of the build may approve.
      if (build.approvers !== '[]' && !mayApprove(build.approvers, caller, build.asked_by))
        throw new ApiError('unauthorized');
      if (!(await approveBuild(writeContextOf(call), build, caller.email, headers.traceparent)))
        throw new ApiError('resource_temporary_unavailable');
      const approved = await findBuild(db, project.id, params.build_id);
      return (await showing(call, [approved]))(approved);
    },
  }),
  ...logRoutes(logged),
  recordFirehose(logged, followedBuild),
  ...logRoutes(loggedService),
  recordFirehose(loggedService, followedBuild),
];
