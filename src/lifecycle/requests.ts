import { sql } from 'kysely';
import { doomLogsOf } from '../db/doomed-blobs.ts';
import { prepared, preparedInsert, preparedWrite } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow, ProjectRow, SuiteRuleRow } from '../db/schema.ts';
import { cancel, drop, enqueue } from '../queue/queue.ts';
import { beginLog, completeLog, reopenLog } from '../streams/logs.ts';
import { addBuild, cancelBuild } from './builds.ts';
import { happened, holdProject, projectTopic, type Life } from './life.ts';
import type { FetchProgress } from './rollup.ts';
import { applies, type CommitFacts, type Rule } from './rules.ts';
import { rollUp, rollUpProject, rollUpRequest } from './settle.ts';
import { buildMachine, buildRequestMachine, isFinal, type BuildRequestState, type BuildState } from './states.ts';

type Owned = Pick<ProjectRow, 'id' | 'owner_id'>;

const insertRequest = preparedInsert('build_requests');

/** A request begins with the fetch of its commit, unless its SHA is known: then the suites start at once. */
export async function openRequest(life: Life, project: Owned, request: BuildRequestRow): Promise<void> {
  await insertRequest(life.trx, request);
  await beginLog(life.trx, request.id, project.id);
  await announceRequest(life, request);
  const known = await knownCommit(life, request);
  if (known) await startSuites(life, project, request, known, '');
  else await enqueueFetch(life, project, request.id);
}

async function announceRequest(
  life: Life,
  { project_id: projectId, id, build_state: state }: BuildRequestRow,
): Promise<void> {
  await happened(life, { projectId, subjectId: id, type: 'build_request', state });
}

async function enqueueFetch({ db, trx, ids }: Life, project: Owned, requestId: bigint): Promise<void> {
  await enqueue(db, trx, ids, { kind: 'fetch_commit', subjectId: requestId, accountId: project.owner_id });
}

const findCommit = prepared<{ project: bigint; ref: string }, CommitRow>((db, value) =>
  db.selectFrom('commits').selectAll().where('project_id', '=', value('project')).where('ref', '=', value('ref')),
);

async function knownCommit({ trx }: Life, request: BuildRequestRow): Promise<CommitRow | undefined> {
  if (!/^[0-9a-f]{40}$/.test(request.commit_ref)) return undefined;
  const [commit] = await findCommit(trx, { project: request.project_id, ref: request.commit_ref });
  return commit;
}

/** Records how far the fetch has come, unless it is over already. */
export async function moveFetch(life: Life, requestId: bigint, fetch: FetchProgress): Promise<void> {
  const { numUpdatedRows } = await life.trx
    .updateTable('build_requests')
    .set({ fetch })
    .where('id', '=', requestId)
    .where('fetch', 'in', ['waiting', 'running'])
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return;
  if (fetch !== 'waiting' && fetch !== 'running') await completeLog(life.db, life.trx, requestId);
  await rollUpRequest(life, requestId);
}

/** The commit is there: the suites that apply to it start. */
export async function startSuites(
  life: Life,
  project: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
  branch: string,
): Promise<void> {
  const { trx } = life;
  const likely = branch === '' ? ((JSON.parse(commit.branches) as string[])[0] ?? '') : branch;
  await recordFetch(trx, { id: request.id, commit: commit.id, branch: likely });
  await completeLog(life.db, trx, request.id);
  const place = { projectId: project.id, accountId: project.owner_id, commitId: commit.id, requestId: request.id };
  for (const suiteId of await suitesFor(life, project.id, factsOf(commit))) await addBuild(life, place, suiteId);
  await rollUp(life, commit.id, [request.id]);
  await rollUpProject(life, project.id);
}

const recordFetch = preparedWrite<{ id: bigint; commit: bigint; branch: string }>((db, value) =>
  db
    .updateTable('build_requests')
    .set({ commit_id: value('commit'), fetch: sql.lit<string>('done'), branch: value('branch') })
    .where('id', '=', value('id')),
);
const findSuites = prepared<{ project: bigint }, { id: bigint }>((db, value) =>
  db.selectFrom('suites').select('id').where('project_id', '=', value('project')).orderBy('id'),
);
const findRules = prepared<{ project: bigint }, SuiteRuleRow>((db, value) =>
  db
    .selectFrom('suite_rules')
    .innerJoin('suites', 'suites.id', 'suite_rules.suite_id')
    .selectAll('suite_rules')
    .where('suites.project_id', '=', value('project')),
);

async function suitesFor({ trx }: Life, projectId: bigint, facts: CommitFacts): Promise<bigint[]> {
  const suites = await findSuites(trx, { project: projectId });
  const rules = await findRules(trx, { project: projectId });
  const rulesOf = (id: bigint): Rule[] => rules.filter((rule) => rule.suite_id === id) as unknown as Rule[];
  return suites.map(({ id }) => id).filter((id) => applies(rulesOf(id), facts));
}

function factsOf(commit: CommitRow): CommitFacts {
  return {
    message: commit.message,
    branches: JSON.parse(commit.branches) as string[],
    tags: JSON.parse(commit.tags) as string[],
    files: JSON.parse(commit.files) as string[],
    authorName: commit.scm_author_name,
    authorEmail: commit.scm_author_email,
    committerEmail: commit.scm_committer_email,
    ref: commit.ref,
  };
}

/** Calls off the fetch and every build that is not over. */
export async function cancelRequest(life: Life, request: BuildRequestRow): Promise<void> {
  if (request.fetch === 'waiting' || request.fetch === 'running') {
    if ((await cancel(life.db, life.trx, request.id)) !== 'told') await moveFetch(life, request.id, 'cancelled');
  }
  for (const build of await buildsOf(life, request)) await cancelBuild(life, build);
}

/** Tries again: all suites, or those that did not pass. False while something of the request is not over. */
export async function rerunRequest(
  life: Life,
  project: Owned,
  request: BuildRequestRow,
  failedOnly: boolean,
): Promise<boolean> {
  if (!isFinal(buildRequestMachine, request.build_state as BuildRequestState)) return false;
  if (request.commit_id === null) {
    await life.trx.updateTable('build_requests').set({ fetch: 'waiting' }).where('id', '=', request.id).execute();
    await reopenLog(life.trx, request.id);
    await rollUpRequest(life, request.id);
    await enqueueFetch(life, project, request.id);
    return true;
  }
  const earlier = await buildsOf(life, request);
  if (earlier.length === 0) {
    // No suite applied the last time; one that was made since may apply now.
    const commits = life.trx.selectFrom('commits').selectAll().where('id', '=', request.commit_id);
    await startSuites(life, project, request, await commits.executeTakeFirstOrThrow(), request.branch);
    return true;
  }
  const newest = new Map(earlier.map((build) => [build.suite_id, build]));
  const wanted = [...newest.values()].filter((build) => !failedOnly || build.build_state !== 'passed');
  for (const build of wanted) await addBuild(life, placeOf(project, build), build.suite_id);
  await rollUp(life, request.commit_id, [request.id]);
  return true;
}

/** Makes another attempt at one build's suite; undefined while one is under way. */
export async function restartBuild(life: Life, project: Owned, build: BuildRow): Promise<BuildRow | undefined> {
  const unfinished = await life.trx
    .selectFrom('builds')
    .select('id')
    .where('commit_id', '=', build.commit_id)
    .where('suite_id', '=', build.suite_id)
    .where(
      'build_state',
      'in',
      buildMachine.states.filter((state) => !isFinal(buildMachine, state)),
    )
    .executeTakeFirst();
  if (unfinished || !isFinal(buildMachine, build.build_state as BuildState)) return undefined;
  const next = await addBuild(life, placeOf(project, build), build.suite_id);
  await rollUp(life, build.commit_id, [build.build_request_id]);
  return next;
}

/** Lets go of all work on a project that is about to be deleted, and tells those who follow it. */
export async function dropWork(life: Life, projectId: bigint): Promise<void> {
  const { db, trx } = life;
  await holdProject(life, projectId);
  for (const table of ['build_requests', 'builds', 'deploys', 'notifications'] as const) {
    await drop(db, trx, trx.selectFrom(table).select('id').where('project_id', '=', projectId) as never);
  }
  await doomLogsOf(trx, projectId);
  await db.announce(trx, projectTopic(projectId));
}

function placeOf(project: Owned, build: BuildRow) {
  return {
    projectId: project.id,
    accountId: project.owner_id,
    commitId: build.commit_id,
    requestId: build.build_request_id,
  };
}

/** The builds of a request, oldest attempt first. */
async function buildsOf({ trx }: Life, request: BuildRequestRow): Promise<BuildRow[]> {
  return trx.selectFrom('builds').selectAll().where('build_request_id', '=', request.id).orderBy('id').execute();
}
