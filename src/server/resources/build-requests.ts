import type { Call } from '../api/call.ts';
import type { Caller } from '../auth/callers.ts';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { columnsOf, described, flag } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import { holdWithFirst } from '../lifecycle/apply-rollup.ts';
import { heldRequests } from '../lifecycle/held-back.ts';
import { cancelRequest } from '../lifecycle/cancel-requests.ts';
import { askedAgain } from '../lifecycle/asked-again.ts';
import { isMerged } from '../lifecycle/merges.ts';
import { approveRequest, openRequest } from '../lifecycle/requests.ts';
import { rerunRequest } from '../lifecycle/reruns.ts';
import { buildRequestMachine, isFinal, type BuildRequestState } from '../lifecycle/states.ts';
import { buildRequestView, shownRequests, type Shown } from '../views/build-request.ts';
import { askedFields, buildRequestRecord, explanationRecord } from '../../shared/records/build-request.ts';
import { listOf } from '../../shared/records/schema.ts';
import { checkVariables } from './asked-variables.ts';
import { writeContextOf, orNotFound } from './common.ts';
import { explain } from './explanations.ts';
import { requestFirehose } from './firehoses.ts';
import { loggedInProject, logRoutes } from './logs.ts';
import { reasonsToWait } from './waiting.ts';

const mayWait = ({ build_state: state }: BuildRequestRow): boolean =>
  !isFinal(buildRequestMachine, state as BuildRequestState);

const isHeld = ({ build_state: state }: BuildRequestRow): boolean => state === buildRequestMachine.held;

type Reading = Pick<Call, 'database'> & { db: Queries; project: Pick<ProjectRow, 'id' | 'owner_id'> };

async function showing(call: Reading, rows: readonly Shown[]) {
  const { owner_id: account } = call.project;
  const reason = await reasonsToWait(call, { account, rows, mayWait, builds: 'build_request_id' });
  const open = rows.filter((row) => row.build_state === 'building' && reason(row) === '');
  const held = await heldRequests(call.db, open);
  return (row: Shown) => buildRequestView(row, isHeld(row) ? 'waits for approval' : (held.get(row.id) ?? reason(row)));
}

async function shownRequest(call: Reading & { params: { build_request_id: bigint } }) {
  const request = await findRequest(call.db, call.project.id, call.params.build_request_id);
  return (await showing(call, [request]))(request);
}

function requestsOf(db: Queries, projectId: bigint) {
  return shownRequests(db).where('build_requests.project_id', '=', projectId);
}

async function findRequest(db: Queries, projectId: bigint, id: bigint) {
  return orNotFound(await requestsOf(db, projectId).where('build_requests.id', '=', id).executeTakeFirst());
}

async function checkSuites(db: Queries, projectId: bigint, named: readonly bigint[] = []): Promise<FieldErrors> {
  if (named.length === 0) return {};
  const suites = db.selectFrom('suites').select('id').where('project_id', '=', projectId);
  const found = await suites.where('id', 'in', named).execute();
  return found.length === named.length ? {} : { suites: ['not_found'] };
}

type Asking = Pick<Call, 'headers'> & Pick<Reading, 'project'> & { caller: Caller };

function askedBy({ caller, project, headers: { traceparent } }: Asking) {
  const isByBuild = caller.via === 'build';
  return { createdBy: isByBuild ? project.owner_id : caller.id, isByNobody: isByBuild, traceparent };
}

const rerunFields = { failed_only: described(flag(), 'only the suites that did not pass') };

export const logged = loggedInProject({
  table: 'build_requests',
  path: '/projects/:project_id/build_requests/:build_request_id',
  param: 'build_request_id',
  scope: 'build_requests',
  name: 'the fetch of a build request',
});

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests',
    access: 'public',
    scope: 'build_requests',
    summary: 'List the build requests of a project',
    paged: true,
    answer: listOf(buildRequestRecord),
    async handle(call) {
      const { db, project, page } = call;
      const rows = await onPage(requestsOf(db, project.id), 'build_requests.id', page).execute();
      return pageOf(page, rows.map(await showing(call, rows)));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/build_requests',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Request a build of a commit by all suites or some: a branch, a tag, a SHA, or any ref by its full name',
    body: askedFields,
    creates: 'work',
    answer: buildRequestRecord,
    verify: async (call, { suites, variables = {}, priority = 0 }) => ({
      ...(priority > call.project.most_priority && { priority: ['invalid_format'] }),
      ...(await checkSuites(call.db, call.project.id, suites)),
      ...(await checkVariables(call, variables)),
    }),
    audit: 'nothing',
    async handle(call) {
      const { project, input } = call;
      const {
        commit_ref: commitRef,
        suites,
        suite_names: suiteNames,
        variables,
        priority,
        reuse,
      } = columnsOf(askedFields, input);
      const asked = {
        commitRef,
        ...askedBy(call),
        suites,
        suiteNames,
        variables,
        priority,
        reuse,
      };
      const request = await openRequest(writeContextOf(call), project, asked);
      const made = { ...request, created_by_email: call.caller.email, base: '', compared_with: '' };
      return (await showing(call, [made]))(made);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests/:build_request_id',
    access: 'public',
    scope: 'build_requests',
    summary: 'Fetch a build request',

    answer: buildRequestRecord,
    handle: shownRequest,
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/build_requests/:build_request_id/cancel',
    access: 'developer',
    scope: 'build_requests_create',
    summary: 'Cancel a build request: its fetch, and every unfinished build',
    answer: buildRequestRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, params } = call;
      await cancelRequest(writeContextOf(call), await findRequest(db, project.id, params.build_request_id));
      return shownRequest(call);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/build_requests/:build_request_id/approve',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Approve a build request from a fork; its builds still get no secrets',
    answer: buildRequestRecord,
    audit: {
      action: 'build_request.approved',
      subject: ({ params }) => ({ id: params.build_request_id, name: '' }),
    },
    async handle(call) {
      const { db, project, params } = call;
      await findRequest(db, project.id, params.build_request_id);
      if (!(await approveRequest(writeContextOf(call), project, params.build_request_id)))
        throw new ApiError('resource_temporary_unavailable');
      return shownRequest(call);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/build_requests/:build_request_id/rerun',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Rerun a finished build request: all its suites, or those that did not pass',
    query: rerunFields,
    body: rerunFields,
    answer: buildRequestRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, params, caller, input, query } = call;
      const context = writeContextOf(call);
      await findRequest(db, project.id, params.build_request_id);
      await holdWithFirst(context, params.build_request_id); // of two concurrent calls, the second finds the request begun
      const request = await findRequest(db, project.id, params.build_request_id);
      const { traceparent } = call.headers;
      const again = { by: caller.id, failedOnly: input.failed_only || query.failed_only, traceparent };
      if (!(await rerunRequest(context, project, request, again))) throw new ApiError('resource_temporary_unavailable');
      return shownRequest(call);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/build_requests/:build_request_id/again',
    access: 'developer',
    scope: 'build_requests_create',
    startsWork: true,
    summary: 'Request a build of the same head of a pull request, merged into its target branch as it is now',
    creates: 'work',
    answer: buildRequestRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, params } = call;
      const first = await findRequest(db, project.id, params.build_request_id);
      if (!isMerged(project, first)) throw new ApiError('invalid_format', 'pull_request_builds');
      if (first.head_sha === '') throw new ApiError('resource_temporary_unavailable');
      const request = await openRequest(writeContextOf(call), project, { ...askedAgain(first), ...askedBy(call) });
      const made = { ...request, created_by_email: call.caller.email, base: '', compared_with: '' };
      return (await showing(call, [made]))(made);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests/:build_request_id/explanation',
    access: 'viewer',
    scope: 'build_requests',
    summary: 'Why each suite of the project ran for a build request, or did not',
    answer: listOf(explanationRecord),
    async handle({ db, database, caller, project, params }) {
      const request = await findRequest(db, project.id, params.build_request_id);
      return explain(database, caller.id, request);
    },
  }),
  ...logRoutes(logged),
  requestFirehose(logged),
];
