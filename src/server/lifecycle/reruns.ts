import type { BuildRequestRow, BuildRow } from '../db/schema.ts';
import { reopenLog } from '../streams/logs.ts';
import { holdForBuilds, holdWithFirst } from './apply-rollup.ts';
import { addBuilds, triedBefore, type BuildContext, type Subject, type PlannedBuild } from './builds.ts';
import { needing } from './held-back.ts';
import { holdToJoin } from './joined-requests.ts';
import { withFirst, withNeeded } from './needs.ts';
import { applyEffects, recordEvent, rollUp } from './pending-effects.ts';
import { buildsOf, enqueueFetch, startSuites, type Owned } from './requests.ts';
import { newestAttempts } from './rollup.ts';
import {
  buildMachine,
  buildRequestMachine,
  fetchMachine,
  isFinal,
  statesBeforeAgain,
  type BuildRequestState,
  type BuildState,
  type FetchState,
} from './states.ts';
import { beginTraceAgain } from './request-trace.ts';
import type { WriteContext } from './write-context.ts';

/** Builds that wait for approval continue to wait. False while the request is unfinished. */
export async function rerunRequest(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { by, failedOnly, traceparent }: { by: bigint | null; failedOnly: boolean; traceparent?: unknown },
): Promise<boolean> {
  // A second deploy must be a deploy of its own.
  if (request.deploy_id !== null || !isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    return false;
  await beginTraceAgain(context, request, traceparent);
  const again = { asked_by: by, reuse: 0 }; // whoever reruns it wants it to run
  await context.trx.updateTable('build_requests').set(again).where('id', '=', request.id).execute();
  await startAgain(context, project, { ...request, ...again }, { failedOnly, traceparent });
  await applyEffects(context);
  return true;
}

async function startAgain(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { failedOnly, traceparent }: { failedOnly: boolean; traceparent: unknown },
): Promise<void> {
  if (request.commit_id === null) {
    await context.trx
      .updateTable('build_requests')
      .set({ fetch: fetchMachine.initial, joined_to_id: null })
      .where('id', '=', request.id)
      .where('fetch', 'in', statesBeforeAgain(fetchMachine, fetchMachine.initial))
      .execute();
    await reopenLog(context.trx, request.id);
    rollUp(context, { request: request.id });
    await enqueueFetch(context, project, request.id);
    return;
  }
  await waitAgain(context, request.id);
  const earlier = [await buildsOf(context, request)];
  const first = await firstOf(context, request);
  // If the request that it joined is over, the suites left to it rerun as well.
  if (first && isFinal(buildRequestMachine, first.build_state as BuildRequestState))
    earlier.unshift(await buildsOf(context, first));
  if (earlier.flat().length === 0) {
    // No suite applied last time, but a suite created since then may.
    const commits = context.trx.selectFrom('commits').selectAll().where('id', '=', request.commit_id);
    const { branch, fetched_as: ref } = request;
    const commit = await commits.executeTakeFirstOrThrow();
    const alike = await holdToJoin(context, request, commit.ref);
    await startSuites(context, project, request, commit, { branch, ref: ref === '' ? null : ref, alike });
    return;
  }
  const over = earlier.flatMap((builds) =>
    newestAttempts(builds).filter(({ build_state: state }) => isFinal(buildMachine, state as BuildState)),
  );
  const wanted = over.filter((build) => !failedOnly || build.build_state !== 'passed');
  await holdWithFirst(context, request.id, request.commit_id);
  if (first && wanted.some((build) => build.build_request_id === first.id))
    await beginTraceAgain(context, first, traceparent);
  await tryAgain(context, project, { commitId: request.commit_id, askedBy: request.asked_by }, wanted);
  rollUp(context, { commit: request.commit_id, request: request.id });
}

/** For a request that was cancelled while it waited for the request that it joined. */
async function waitAgain({ trx }: WriteContext, id: bigint): Promise<void> {
  const fetch: FetchState = 'done';
  const requests = trx.updateTable('build_requests').set({ fetch }).where('id', '=', id);
  await requests.where('fetch', 'in', statesBeforeAgain(fetchMachine, fetch)).execute();
}

async function firstOf(
  { trx }: WriteContext,
  { joined_to_id: first }: BuildRequestRow,
): Promise<BuildRequestRow | undefined> {
  const requests = trx.selectFrom('build_requests').selectAll().where('id', '=', first);
  return first === null ? undefined : requests.executeTakeFirst();
}

type TriedBuild = Subject & Pick<BuildRow, 'build_request_id'>;

async function tryAgain(
  context: WriteContext,
  project: Owned,
  asked: Pick<BuildContext, 'commitId' | 'askedBy'>,
  builds: readonly TriedBuild[],
  isPossible: (tried: PlannedBuild) => boolean = () => true,
): Promise<BuildRow[]> {
  const made: BuildRow[] = [];
  for (const [requestId, some] of Map.groupBy(builds, ({ build_request_id: request }) => request)) {
    const tried = await triedBefore(context, { commitId: asked.commitId, requestId }, some);
    made.push(...(await addBuilds(context, contextOf(project, { ...asked, requestId }), tried.filter(isPossible))));
    rollUp(context, { commit: asked.commitId, request: requestId });
  }
  return made;
}

/**
 * Undefined while an attempt is under way. `others` are other variants that restart with the build. With `fromStep`,
 * the build starts there, if it can have the files of this one. Needs that have not passed rerun before it, and builds
 * skipped because of it rerun after it.
 */
export async function restartBuild(
  context: WriteContext,
  project: Owned,
  build: BuildRow,
  {
    by,
    others = [],
    fromStep = '',
    traceparent,
  }: { by: bigint | null; others?: readonly BuildRow[]; fromStep?: string; traceparent?: unknown },
): Promise<BuildRow | undefined> {
  const all = [build, ...others];
  await holdWithFirst(context, build.build_request_id, build.commit_id);
  const unfinished = await context.trx
    .selectFrom('builds')
    .select('id')
    .where('commit_id', '=', build.commit_id)
    .where('suite_name', '=', build.suite_name)
    .where(
      'variant',
      'in',
      all.map(({ variant }) => variant),
    )
    .where('counts', '=', 1)
    .where(
      'build_state',
      'in',
      buildMachine.states.filter((state) => !isFinal(buildMachine, state)),
    )
    .executeTakeFirst();
  if (unfinished || all.some(({ build_state: state }) => !isFinal(buildMachine, state as BuildState))) return undefined;
  const requests = context.trx.selectFrom('build_requests').select(['id', 'trace', 'build_state', 'deploy_id']);
  const own = requests.select('joined_to_id').where('id', '=', build.build_request_id);
  const request = await own.executeTakeFirstOrThrow();
  if (request.deploy_id !== null) return undefined; // a second deploy must be a deploy of its own
  // While other builds of the request run, its span is open, and this attempt belongs to the same trace.
  if (isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    await beginTraceAgain(context, request, traceparent);
  const isOwn = (one: TriedBuild): boolean =>
    one.suite_name === build.suite_name &&
    all.some(({ variant }) => one.variant === variant) &&
    one.build_request_id === build.build_request_id;
  const graphs = await graphsOf(context, request);
  const wanted = graphs.flatMap((all) => withNeeded(newestAttempts(all).filter(isOwn), all));
  const distinct = [...new Map(wanted.map((one) => [one.id, one])).values()];
  const asked = { commitId: build.commit_id, askedBy: by };
  const made = await tryAgain(context, project, asked, distinct, ({ isDeleted }) => !isDeleted);
  const next = made.find(isOwn);
  if (next && fromStep !== '')
    await context.trx
      .updateTable('builds')
      .set({ from_step: fromStep, from_build: build.id })
      .where('id', '=', next.id)
      .execute();
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  await applyEffects(context);
  return next;
}

async function graphsOf(context: WriteContext, request: Pick<BuildRequestRow, 'id' | 'joined_to_id'>) {
  const joined = context.trx.selectFrom('build_requests').select(['id', 'joined_to_id']);
  const graphs = [];
  for (const { id, joined_to_id: first } of [
    request,
    ...(await joined.where('joined_to_id', '=', request.id).execute()),
  ]) {
    const ofFirst = first === null ? [] : await buildsOf(context, { id: first });
    graphs.push(withFirst(await buildsOf(context, { id }), ofFirst).map(needing));
  }
  return graphs;
}

export async function approveBuild(
  context: WriteContext,
  build: BuildRow,
  by: string,
  traceparent?: unknown,
): Promise<boolean> {
  await holdForBuilds(context, build.build_request_id, build.commit_id);
  const state = buildMachine.initial;
  const approved = context.trx
    .updateTable('builds')
    .set({ build_state: state, approved_by: by })
    .where('id', '=', build.id)
    .where('build_state', 'in', statesBeforeAgain(buildMachine, state));
  if ((await approved.executeTakeFirst()).numUpdatedRows !== 1n) return false;
  const requests = context.trx.selectFrom('build_requests').select(['id', 'trace', 'build_state']);
  const request = await requests.where('id', '=', build.build_request_id).executeTakeFirstOrThrow();
  if (isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    await beginTraceAgain(context, request, traceparent);
  recordEvent(context, { projectId: build.project_id, subjectId: build.id, type: 'build', state });
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  await applyEffects(context);
  return true;
}

function contextOf(
  { id: projectId, owner_id: accountId }: Owned,
  asked: Omit<BuildContext, 'projectId' | 'accountId'>,
): BuildContext {
  return { projectId, accountId, ...asked };
}
