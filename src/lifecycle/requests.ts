import { forEachKind, prepared, preparedChange, preparedInsert } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow, ProjectRow } from '../db/schema.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { beginLog, completeLog, reopenLog } from '../streams/logs.ts';
import { addBuilds, cancelBuilds, triedBefore, type Tried } from './builds.ts';
import { fetchFailed, recordEvent, rollUp, applyLedger } from './ledger.ts';
import type { WriteContext } from './write-context.ts';
import { applies, type CommitFacts, type Rule } from './rules.ts';
import { holdForBuilds, isOurs } from './apply-rollup.ts';
import {
  buildMachine,
  buildRequestMachine,
  fetchMachine,
  isFinal,
  statesBefore,
  statesBeforeAgain,
  type BuildRequestState,
  type BuildState,
  type FetchState,
} from './states.ts';

type Owned = Pick<ProjectRow, 'id' | 'owner_id'>;

const insertRequest = preparedInsert('build_requests');

/** What is asked for, and by whom. */
export interface Asked {
  commitRef: string;
  createdBy: bigint;
}

/**
 * The one way in which a build starts, whoever asks for it. A request begins with the fetch of its commit, unless its
 * SHA is known: then the suites start at once.
 */
export async function openRequest(context: WriteContext, project: Owned, asked: Asked): Promise<BuildRequestRow> {
  const request: BuildRequestRow = {
    id: context.ids.next(),
    project_id: project.id,
    commit_ref: asked.commitRef,
    commit_id: null,
    build_state: buildRequestMachine.initial,
    created_by: asked.createdBy,
    created_at: BigInt(Date.now()),
    fetch: fetchMachine.initial,
    branch: '',
  };
  const { trx } = context;
  const known = await knownCommit(context, request);
  isOurs(context, request.id);
  await insertRequest(trx, known ? { ...request, ...fetchedAs(known.commit, known.commit.branch) } : request);
  await beginLog(trx, request.id, project.id, { isComplete: known !== undefined });
  announceRequest(context, request);
  if (known) await startKnown(context, project, request, known);
  else await enqueueFetch(context, project, request.id);
  return request;
}

function announceRequest(
  context: WriteContext,
  { project_id: projectId, id, build_state: state }: BuildRequestRow,
): void {
  recordEvent(context, { projectId, subjectId: id, type: 'build_request', state });
}

async function enqueueFetch({ db, trx, ids }: WriteContext, project: Owned, requestId: bigint): Promise<void> {
  await enqueue(db, trx, ids, { kind: 'fetch_commit', subjectId: requestId, accountId: project.owner_id });
}

const holdCommitByRef = forEachKind((db) =>
  prepared<{ project: bigint; ref: string }, CommitRow>((queries, value) =>
    db.locked(
      queries
        .selectFrom('commits')
        .selectAll()
        .where('project_id', '=', value('project'))
        .where('ref', '=', value('ref')),
      'commits',
    ),
  ),
);

/** A commit that is held, and the suites that apply to it. */
interface Known {
  commit: CommitRow;
  suites: Tried[];
}

async function knownCommit(context: WriteContext, request: BuildRequestRow): Promise<Known | undefined> {
  const { db, trx } = context;
  const { project_id: project, commit_ref: ref } = request;
  if (!/^[0-9a-f]{40}$/.test(ref)) return undefined;
  const [[commit], suites] = await Promise.all([
    holdCommitByRef(db)(trx, { project, ref }),
    findSuites(trx, { project, ref }), // answered when the commit is held, and so up to date
  ]);
  if (!commit) return undefined;
  isOurs(context, commit.id);
  return { commit, suites: applying(suites, commit) };
}

/** Records how far the fetch has come, unless it is over already. */
export async function moveFetch(context: WriteContext, requestId: bigint, fetch: FetchState): Promise<boolean> {
  const { numUpdatedRows } = await context.trx
    .updateTable('build_requests')
    .set({ fetch })
    .where('id', '=', requestId)
    .where('fetch', 'in', statesBefore(fetchMachine, fetch))
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return false;
  if (isFinal(fetchMachine, fetch)) await completeLog(context.db, context.trx, requestId);
  rollUp(context, { request: requestId });
  return true;
}

/** Nothing could be fetched. There will be no commit and no build to tell of, so those who asked are told of this. */
export async function failFetch(context: WriteContext, requestId: bigint, reason: string): Promise<void> {
  if (await moveFetch(context, requestId, 'errored')) fetchFailed(context, requestId, reason);
}

/** The commit is there: the suites that apply to it start. */
export async function startSuites(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
  branch: string,
): Promise<void> {
  const { trx } = context;
  await recordFetch(trx, { id: request.id, ...fetchedAs(commit, branch) });
  await completeLog(context.db, trx, request.id);
  await holdForBuilds(context, request.id, commit.id);
  const suites = applying(await findSuites(trx, { project: project.id, ref: commit.ref }), commit);
  await startKnown(context, project, request, { commit, suites });
}

async function startKnown(
  context: WriteContext,
  { id: projectId, owner_id: accountId }: Owned,
  { id: requestId }: BuildRequestRow,
  { commit: { id: commitId }, suites }: Known,
): Promise<void> {
  await addBuilds(context, { projectId, accountId, commitId, requestId }, suites);
  rollUp(context, { commit: commitId, request: requestId, project: projectId });
}

type Fetched = Pick<BuildRequestRow, 'commit_id' | 'fetch' | 'branch'>;

function fetchedAs(commit: CommitRow, branch: string): Fetched {
  const likely = branch === '' ? ((JSON.parse(commit.branches) as string[])[0] ?? '') : branch;
  return { commit_id: commit.id, fetch: 'done' satisfies FetchState, branch: likely };
}

const recordFetch = preparedChange<Fetched & { id: bigint }>((db, value) =>
  db
    .updateTable('build_requests')
    .set({ commit_id: value('commit_id'), fetch: value('fetch'), branch: value('branch') })
    .where('id', '=', value('id')),
);

/** A suite with how often it was tried on the commit, once for each of its rules, or once without any. */
interface SuiteFacts {
  id: bigint;
  last: bigint | number | null;
  subject: string | null;
  operator: string | null;
  value: string | null;
}

const findSuites = prepared<{ project: bigint; ref: string }, SuiteFacts>((db, value) =>
  db
    .selectFrom('suites')
    .leftJoin('suite_rules', 'suite_rules.suite_id', 'suites.id')
    .select(['suites.id', 'suite_rules.subject', 'suite_rules.operator', 'suite_rules.value'])
    .select((of) =>
      of
        .selectFrom('builds')
        .select((within) => within.fn.max('attempt').as('last'))
        .where('builds.commit_id', '=', (commit) =>
          commit
            .selectFrom('commits')
            .select('commits.id')
            .where('commits.project_id', '=', value('project'))
            .where('commits.ref', '=', value('ref')),
        )
        .whereRef('builds.suite_id', '=', 'suites.id')
        .as('last'),
    )
    .where('suites.project_id', '=', value('project'))
    .orderBy('suites.id'),
);

function applying(rows: readonly Readonly<SuiteFacts>[], commit: CommitRow): Tried[] {
  const facts = factsOf(commit);
  return Array.from(Map.groupBy(rows, ({ id }) => id))
    .filter(([, rules]) => applies(rules.filter(({ subject }) => subject !== null) as unknown as Rule[], facts))
    .map(([suiteId, [suite]]) => ({ suiteId, last: Number(suite?.last ?? 0) }));
}

/** What rules look at. */
export function factsOf(commit: CommitRow): CommitFacts {
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
export async function cancelRequest(context: WriteContext, request: BuildRequestRow): Promise<void> {
  const isFetched = isFinal(fetchMachine, request.fetch as FetchState);
  const fetch = isFetched ? 'none' : (await cancel(context.db, context.trx, [request.id])).get(request.id);
  // There are builds once the fetch is over, which it may be since the request was looked at.
  if (fetch === undefined || fetch === 'none') await cancelBuilds(context, await buildsOf(context, request));
  if (!isFetched && fetch !== 'signalled') await moveFetch(context, request.id, 'cancelled');
  await applyLedger(context);
}

/** Tries again: all suites, or those that did not pass. False while something of the request is not over. */
export async function rerunRequest(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  failedOnly: boolean,
): Promise<boolean> {
  if (!isFinal(buildRequestMachine, request.build_state as BuildRequestState)) return false;
  await startAgain(context, project, request, failedOnly);
  await applyLedger(context);
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
    // No suite applied the last time; one that was made since may apply now.
    const commits = context.trx.selectFrom('commits').selectAll().where('id', '=', request.commit_id);
    await startSuites(context, project, request, await commits.executeTakeFirstOrThrow(), request.branch);
    return;
  }
  const newest = new Map(earlier.map((build) => [build.suite_id, build]));
  const wanted = [...newest.values()].filter((build) => !failedOnly || build.build_state !== 'passed');
  const place = {
    projectId: project.id,
    accountId: project.owner_id,
    commitId: request.commit_id,
    requestId: request.id,
  };
  const suites = wanted.map(({ suite_id: suiteId }) => suiteId);
  await holdForBuilds(context, request.id, request.commit_id);
  await addBuilds(context, place, await triedBefore(context, request.commit_id, suites));
  rollUp(context, { commit: request.commit_id, request: request.id });
}

/** Makes another attempt at one build's suite; undefined while one is under way. */
export async function restartBuild(
  context: WriteContext,
  project: Owned,
  build: BuildRow,
): Promise<BuildRow | undefined> {
  await holdForBuilds(context, build.build_request_id, build.commit_id);
  const unfinished = await context.trx
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
  const place = {
    projectId: project.id,
    accountId: project.owner_id,
    commitId: build.commit_id,
    requestId: build.build_request_id,
  };
  const [next] = await addBuilds(context, place, await triedBefore(context, build.commit_id, [build.suite_id]));
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  return next;
}

/** The builds of a request, oldest attempt first. */
async function buildsOf({ trx }: WriteContext, request: BuildRequestRow): Promise<BuildRow[]> {
  return trx.selectFrom('builds').selectAll().where('build_request_id', '=', request.id).orderBy('id').execute();
}
