import type { BuildRow } from '../db/schema.ts';
import { happened, type Life } from './life.ts';
import { buildRequestState, commitState, projectState, type BuildFact, type FetchProgress } from './rollup.ts';
import type { BuildState, CommitState } from './states.ts';

/** Brings a commit, the requests concerned and the project into line with their builds. */
export async function rollUp(life: Life, commitId: bigint, requestIds: bigint[]): Promise<void> {
  const { trx } = life;
  const builds = await trx.selectFrom('builds').selectAll().where('commit_id', '=', commitId).execute();
  const commit = await trx
    .selectFrom('commits')
    .select(['id', 'project_id', 'build_state'])
    .where('id', '=', commitId)
    .executeTakeFirstOrThrow();
  const state = commitState(builds.map(toFact), 'chosen');
  if (state !== commit.build_state) {
    await trx.updateTable('commits').set({ build_state: state }).where('id', '=', commitId).execute();
    await happened(life, { projectId: commit.project_id, subjectId: commitId, type: 'commit', state });
    await rollUpProject(life, commit.project_id);
  }
  for (const id of requestIds)
    await rollUpRequest(
      life,
      id,
      builds.filter((build) => build.build_request_id === id),
    );
}

export async function rollUpRequest(life: Life, id: bigint, builds: BuildRow[]): Promise<void> {
  const { trx } = life;
  const request = await trx
    .selectFrom('build_requests')
    .select(['project_id', 'build_state', 'fetch'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const state = buildRequestState(request.fetch as FetchProgress, builds.map(toFact));
  if (state === request.build_state) return;
  await trx.updateTable('build_requests').set({ build_state: state }).where('id', '=', id).execute();
  await happened(life, { projectId: request.project_id, subjectId: id, type: 'build_request', state });
}

/** A project is in the state of its newest commit. */
export async function rollUpProject({ trx }: Life, projectId: bigint): Promise<void> {
  const newest = await trx
    .selectFrom('commits')
    .select('build_state')
    .where('project_id', '=', projectId)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const state = projectState((newest?.build_state as CommitState | undefined) ?? null);
  await trx.updateTable('projects').set({ build_state: state }).where('id', '=', projectId).execute();
}

function toFact(build: BuildRow): BuildFact {
  return {
    suiteId: build.suite_id,
    attempt: build.attempt,
    state: build.build_state as BuildState,
    failureReason: build.failure_reason,
  };
}
