import type { BuildRequestRow, BuildRow } from '../db/schema.ts';
import { reopenLog } from '../streams/logs.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { addBuilds, triedBefore, type BuildContext, type Subject } from './builds.ts';
import { needing } from './held-back.ts';
import { withNeeded } from './needs.ts';
import { applyEffects, rollUp } from './pending-effects.ts';
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
} from './states.ts';
import { beginTraceAgain } from './traces.ts';
import type { WriteContext } from './write-context.ts';

/* Reruns of requests, and restarts of their builds. */

/** Runs all suites again, or those that did not pass. False while any part of the request is unfinished. */
export async function rerunRequest(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { failedOnly, traceparent }: { failedOnly: boolean; traceparent?: unknown },
): Promise<boolean> {
  // A second deploy has to be a deploy of its own.
  if (request.deploy_id !== null || !isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    return false;
  await beginTraceAgain(context, request, traceparent);
  await startAgain(context, project, request, failedOnly);
  await applyEffects(context);
  return true;
}

async function startAgain(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  failedOnly: boolean,
): Promise<void> {
  if (request.commit_id === null) {
    await context.trx
      .updateTable('build_requests')
      .set({ fetch: fetchMachine.initial })
      .where('id', '=', request.id)
      .where('fetch', 'in', statesBeforeAgain(fetchMachine, fetchMachine.initial))
      .execute();
    await reopenLog(context.trx, request.id);
    rollUp(context, { request: request.id });
    await enqueueFetch(context, project, request.id);
    return;
  }
  const earlier = await buildsOf(context, request);
  if (earlier.length === 0) {
    // No suite applied the last time. One that was made since then may apply now.
    const commits = context.trx.selectFrom('commits').selectAll().where('id', '=', request.commit_id);
    const { branch } = request;
    await startSuites(context, project, request, await commits.executeTakeFirstOrThrow(), { branch });
    return;
  }
  const newest = new Map(earlier.map((build) => [JSON.stringify([build.suite_name, build.variant]), build]));
  const wanted = [...newest.values()].filter((build) => !failedOnly || build.build_state !== 'passed');
  await holdForBuilds(context, request.id, request.commit_id);
  await addBuilds(
    context,
    contextOf(project, request.commit_id, request.id),
    await triedBefore(context, request.commit_id, wanted),
  );
  rollUp(context, { commit: request.commit_id, request: request.id });
}

/**
 * Makes another attempt at one build's suite and variant; undefined while one is under way. What it needs and has not
 * passed runs again before it, and builds that were skipped because of it run again after it.
 */
export async function restartBuild(
  context: WriteContext,
  project: Owned,
  build: BuildRow,
  traceparent?: unknown,
): Promise<BuildRow | undefined> {
  await holdForBuilds(context, build.build_request_id, build.commit_id);
  const unfinished = await context.trx
    .selectFrom('builds')
    .select('id')
    .where('commit_id', '=', build.commit_id)
    .where('suite_name', '=', build.suite_name)
    .where('variant', '=', build.variant)
    .where('deploy_id', 'is', null)
    .where(
      'build_state',
      'in',
      buildMachine.states.filter((state) => !isFinal(buildMachine, state)),
    )
    .executeTakeFirst();
  if (unfinished || !isFinal(buildMachine, build.build_state as BuildState)) return undefined;
  const requests = context.trx.selectFrom('build_requests').select(['id', 'trace', 'build_state', 'deploy_id']);
  const request = await requests.where('id', '=', build.build_request_id).executeTakeFirstOrThrow();
  if (request.deploy_id !== null) return undefined; // a second deploy has to be a deploy of its own
  // While other builds of the request are under way, its span has not ended, and this attempt belongs to the same
  // trace.
  if (isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    await beginTraceAgain(context, request, traceparent);
  const all = (await buildsOf(context, { id: build.build_request_id })).map(needing);
  const isOwn = (one: Subject): boolean => one.suite_name === build.suite_name && one.variant === build.variant;
  const wanted = withNeeded(newestAttempts(all).filter(isOwn), all);
  const tried = await triedBefore(context, build.commit_id, wanted);
  const possible = tried.filter(({ isDeleted }) => !isDeleted);
  const made = await addBuilds(context, contextOf(project, build.commit_id, build.build_request_id), possible);
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  await applyEffects(context);
  return made.find(isOwn);
}

function contextOf({ id: projectId, owner_id: accountId }: Owned, commitId: bigint, requestId: bigint): BuildContext {
  return { projectId, accountId, commitId, requestId };
}
