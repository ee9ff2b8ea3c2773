import { sql } from 'kysely';
import { forEachKind, prepared, preparedChange, preparedInsert } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow, ProjectRow, SuiteRow } from '../db/schema.ts';
import { variantsOf } from '../lib/matrix.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { beginLog, completeLog, reopenLog } from '../streams/logs.ts';
import { addBuilds, cancelBuilds, triedBefore, type Tried } from './builds.ts';
import { fetchFailed, recordEvent, rollUp, applyLedger } from './ledger.ts';
import type { WriteContext } from './write-context.ts';
import { isForeign } from './forks.ts';
import { applies, type CommitFacts, type Rule } from './rules.ts';
import { holdForBuilds, isOurs } from './apply-rollup.ts';
import { beginTrace, beginTraceAgain } from './traces.ts';
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

export const requestEvents = ['manual', 'push', 'tag', 'pull_request', 'poll', 'schedule'] as const;
export type RequestEvent = (typeof requestEvents)[number];

/** The trigger of a build that no user asked for. */
export interface Trigger {
  /** `hook:ID`, `poll` or `schedule:ID`. */
  source: string;
  event: Exclude<RequestEvent, 'manual'>;
  pullRequest: bigint | null;
  /** The branch that was pushed to, or the target branch of a pull request; empty for a tag. */
  targetBranch: string;
  fromFork: boolean;
  /** The forge's name for the user who did it; empty where no user did. */
  sender: string;
  /** The full name of the ref to fetch the commit by; empty where `commitRef` is enough. */
  fetchRef: string;
  /** The branch or pull request in which a newer request may cancel older ones (triggers.ts); empty where none may. */
  group: string;
}

/** The build that is asked for, and by whom. */
export interface Asked {
  commitRef: string;
  createdBy: bigint;
  trigger?: Trigger;
  /** It waits until a user of the project approves it. */
  isHeld?: boolean;
  /** The header with which it was asked for, if there was one: the trace that it belongs to. */
  traceparent?: unknown;
  /** The suites that are to run, if they apply; by default all. */
  suites?: readonly bigint[];
}

/**
 * The one way in which every build starts. A request begins with the fetch of its commit, unless its SHA is known: then
 * the suites start at once.
 */
export async function openRequest(context: WriteContext, project: Owned, asked: Asked): Promise<BuildRequestRow> {
  const { trigger, isHeld = false } = asked;
  const request: BuildRequestRow = {
    id: context.ids.next(),
    project_id: project.id,
    commit_ref: asked.commitRef,
    commit_id: null,
    build_state: (isHeld && buildRequestMachine.held) || buildRequestMachine.initial,
    created_by: asked.createdBy,
    created_at: BigInt(Date.now()),
    fetch: (isHeld && fetchMachine.held) || fetchMachine.initial,
    branch: '',
    trigger: trigger?.source ?? '',
    event: trigger?.event ?? 'manual',
    pull_request: trigger?.pullRequest ?? null,
    target_branch: trigger?.targetBranch ?? '',
    from_fork: trigger?.fromFork ? 1 : 0,
    sender: trigger?.sender ?? '',
    fetch_ref: trigger?.fetchRef ?? '',
    concurrency_group: trigger?.group ?? '',
    trace: beginTrace(context, asked.traceparent),
    suites: JSON.stringify(asked.suites?.map(String) ?? []),
  };
  const { trx } = context;
  const known = isHeld ? undefined : await knownCommit(context, request);
  isOurs(context, request.id);
  const opened = known ? { ...request, ...fetchedAs(request, known.commit, known.commit.branch) } : request;
  await insertRequest(trx, opened);
  await beginLog(trx, request.id, project.id, { isComplete: known !== undefined });
  announceRequest(context, request);
  if (known) await startKnown(context, project, request, known);
  else if (!isHeld) await enqueueFetch(context, project, request.id);
  return { ...request, from_fork: opened.from_fork };
}

/** Lets a request continue that waits for approval; false when it does not wait for one. */
export async function approveRequest(context: WriteContext, project: Owned, requestId: bigint): Promise<boolean> {
  if (!(await moveFetch(context, requestId, 'waiting'))) return false;
  await enqueueFetch(context, project, requestId);
  await applyLedger(context);
  return true;
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

/** A locked commit, and the suites that apply to it. */
interface Known {
  commit: CommitRow;
  suites: Tried[];
}

async function knownCommit(context: WriteContext, request: BuildRequestRow): Promise<Known | undefined> {
  const { db, trx } = context;
  const { project_id: project, commit_ref: commitRef } = request;
  if (!/^[0-9a-f]{40}$/.test(commitRef)) return undefined;
  const [[commit], suites] = await Promise.all([
    holdCommitByRef(db)(trx, { project, ref: commitRef }),
    findSuites(trx, { project, ref: commitRef }), // answered when the commit is locked, and so up to date
  ]);
  if (!commit || !isOn(commit, request.fetch_ref)) return undefined;
  isOurs(context, commit.id);
  const fetched = { ...request, ...fetchedAs(request, commit, commit.branch) };
  return { commit, suites: await applying(context, suites, commit, fetched) };
}

/** Whether a known commit is on the branch, or has the tag, that it was sent with. */
function isOn({ branches, tags }: CommitRow, ref: string): boolean {
  const [, kind, name = ''] = /^refs\/(heads|tags)\/(.*)$/s.exec(ref) ?? [];
  return kind === undefined || (JSON.parse(kind === 'heads' ? branches : tags) as string[]).includes(name);
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

/** The fetch failed. There will be no commit and no build, so notifications report this instead. */
export async function failFetch(context: WriteContext, requestId: bigint, reason: string): Promise<void> {
  if (await moveFetch(context, requestId, 'errored')) fetchFailed(context, requestId, reason);
}

/** The commit was fetched: the suites that apply to it start. */
export async function startSuites(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
  branch: string,
): Promise<void> {
  const { trx } = context;
  const fetched = fetchedAs(request, commit, branch);
  await recordFetch(trx, { id: request.id, ...fetched });
  await completeLog(context.db, trx, request.id);
  await holdForBuilds(context, request.id, commit.id);
  const facts = await findSuites(trx, { project: project.id, ref: commit.ref });
  const suites = await applying(context, facts, commit, { ...request, ...fetched });
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

type Fetched = Pick<BuildRequestRow, 'commit_id' | 'fetch' | 'branch' | 'from_fork'>;

function fetchedAs(request: BuildRequestRow, commit: CommitRow, branch: string): Fetched {
  const branches = JSON.parse(commit.branches) as string[];
  // A push is about one of these branches. A pull request is about none of them.
  const pushed = branches.includes(request.target_branch) && request.pull_request === null ? request.target_branch : '';
  return {
    commit_id: commit.id,
    fetch: 'done' satisfies FetchState,
    branch: pushed || branch || (branches[0] ?? ''),
    from_fork: request.from_fork === 1 || isForeign(commit) ? 1 : 0,
  };
}

const recordFetch = preparedChange<Fetched & { id: bigint }>((db, value) =>
  db
    .updateTable('build_requests')
    .set({
      commit_id: value('commit_id'),
      fetch: value('fetch'),
      branch: value('branch'),
      from_fork: value('from_fork'),
    })
    .where('id', '=', value('id')),
);

/** A suite with its number of attempts at the commit: one row for each of its rules, or one row without rules. */
interface SuiteFacts extends Pick<SuiteRow, 'id' | 'tags' | 'allow_failure' | 'retries' | 'matrix'> {
  /** Of the builds without a variant. */
  last: bigint | number | null;
  subject: string | null;
  operator: string | null;
  value: string | null;
}

const findSuites = prepared<{ project: bigint; ref: string }, SuiteFacts>((db, value) =>
  db
    .selectFrom('suites')
    .leftJoin('suite_rules', 'suite_rules.suite_id', 'suites.id')
    .select(['suites.id', 'suites.tags', 'suites.allow_failure', 'suites.retries', 'suites.matrix'])
    .select(['suite_rules.subject', 'suite_rules.operator', 'suite_rules.value'])
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
        .where('builds.variant', '=', sql.lit(''))
        .as('last'),
    )
    .where('suites.project_id', '=', value('project'))
    .orderBy('suites.id'),
);

/** The suites and variants to run. Naming suites in a request leaves out the others; the rules hold in any case. */
async function applying(
  context: WriteContext,
  rows: readonly Readonly<SuiteFacts>[],
  commit: CommitRow,
  request: BuildRequestRow,
): Promise<Tried[]> {
  const facts = factsOf(commit, request);
  const named = new Set(suitesOf(request));
  const suites = Array.from(Map.groupBy(rows, ({ id }) => id).values())
    .filter(([suite]) => suite && (named.size === 0 || named.has(suite.id)))
    .filter((rules) => applies(rules.filter(({ subject }) => subject !== null) as unknown as Rule[], facts))
    .flatMap(([suite]) => suite ?? []);
  const tried = await Promise.all(suites.map((suite) => triedAnew(context, suite, commit.id)));
  return tried.flat();
}

/** The suites that a request names; none where it is about all. */
export function suitesOf({ suites }: Pick<BuildRequestRow, 'suites'>): bigint[] {
  return (JSON.parse(suites) as string[]).map(BigInt);
}

const findAttempts = prepared<{ commit: bigint; suite: bigint }, Pick<BuildRow, 'variant'> & { last: number }>(
  (db, value) =>
    db
      .selectFrom('builds')
      .select((of) => ['variant', of.fn.max('attempt').as('last')])
      .where('commit_id', '=', value('commit'))
      .where('suite_id', '=', value('suite'))
      .groupBy('variant'),
);

/** All variants of a suite, to be started anew. Only a suite with a matrix takes another query. */
async function triedAnew({ trx }: WriteContext, suite: Readonly<SuiteFacts>, commit: bigint): Promise<Tried[]> {
  const { id: suiteId, tags, allow_failure: allowFailure, retries, last } = suite;
  const settings = { suiteId, tags, allowFailure, retries };
  const matrix = JSON.parse(suite.matrix) as string[];
  if (matrix.length === 0) return [{ ...settings, variant: '', last: Number(last ?? 0) }];
  const attempts = await findAttempts(trx, { commit, suite: suiteId });
  const lastOf = new Map(attempts.map((one) => [one.variant, one.last]));
  return variantsOf(matrix).map((variant) => ({ ...settings, variant, last: lastOf.get(variant) ?? 0 }));
}

/** The facts about a commit that rules compare. */
export function factsOf(
  commit: CommitRow,
  request: Pick<BuildRequestRow, 'event' | 'target_branch' | 'from_fork'>,
): CommitFacts {
  return {
    event: request.event,
    targetBranch: request.target_branch,
    isFromFork: request.from_fork === 1,
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

/** Cancels the fetch and every unfinished build. */
export async function cancelRequest(context: WriteContext, request: BuildRequestRow): Promise<void> {
  await callOff(context, [request]);
  await applyLedger(context);
}

/** The same for several, in the order of locks: all jobs first. */
export async function callOff(context: WriteContext, requests: readonly BuildRequestRow[]): Promise<void> {
  const open = requests.filter(({ fetch }) => !isFinal(fetchMachine, fetch as FetchState)).map(({ id }) => id);
  const fetches = await cancel(context.db, context.trx, open);
  // Builds exist once the fetch is over, and it may have ended since the request was read.
  const fetched = requests.filter(({ id }) => (fetches.get(id) ?? 'none') === 'none');
  const read = async (): Promise<BuildRow[]> => {
    const builds: BuildRow[] = [];
    for (const request of fetched) builds.push(...(await buildsOf(context, request)));
    return builds;
  };
  await cancelBuilds(context, await read(), read);
  for (const id of open) if (fetches.get(id) !== 'signalled') await moveFetch(context, id, 'cancelled');
}

/** Runs all suites again, or those that did not pass. False while any part of the request is unfinished. */
export async function rerunRequest(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { failedOnly, traceparent }: { failedOnly: boolean; traceparent?: unknown },
): Promise<boolean> {
  if (!isFinal(buildRequestMachine, request.build_state as BuildRequestState)) return false;
  await beginTraceAgain(context, request, traceparent);
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
    // No suite applied the last time. One that was made since may apply now.
    const commits = context.trx.selectFrom('commits').selectAll().where('id', '=', request.commit_id);
    await startSuites(context, project, request, await commits.executeTakeFirstOrThrow(), request.branch);
    return;
  }
  const newest = new Map(earlier.map((build) => [`${build.suite_id} ${build.variant}`, build]));
  const wanted = [...newest.values()].filter((build) => !failedOnly || build.build_state !== 'passed');
  const place = {
    projectId: project.id,
    accountId: project.owner_id,
    commitId: request.commit_id,
    requestId: request.id,
  };
  await holdForBuilds(context, request.id, request.commit_id);
  await addBuilds(context, place, await triedBefore(context, request.commit_id, wanted));
  rollUp(context, { commit: request.commit_id, request: request.id });
}

/** Makes another attempt at one build's suite and variant; undefined while one is under way. */
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
    .where('suite_id', '=', build.suite_id)
    .where('variant', '=', build.variant)
    .where(
      'build_state',
      'in',
      buildMachine.states.filter((state) => !isFinal(buildMachine, state)),
    )
    .executeTakeFirst();
  if (unfinished || !isFinal(buildMachine, build.build_state as BuildState)) return undefined;
  const requests = context.trx.selectFrom('build_requests').select(['id', 'trace', 'build_state']);
  const request = await requests.where('id', '=', build.build_request_id).executeTakeFirstOrThrow();
  // While others of its builds are under way, the request's own span is too.
  if (isFinal(buildRequestMachine, request.build_state as BuildRequestState))
    await beginTraceAgain(context, request, traceparent);
  const place = {
    projectId: project.id,
    accountId: project.owner_id,
    commitId: build.commit_id,
    requestId: build.build_request_id,
  };
  const [next] = await addBuilds(context, place, await triedBefore(context, build.commit_id, [build]));
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  return next;
}

/** The builds of a request, oldest attempt first. */
async function buildsOf({ trx }: WriteContext, request: BuildRequestRow): Promise<BuildRow[]> {
  return trx.selectFrom('builds').selectAll().where('build_request_id', '=', request.id).orderBy('id').execute();
}
