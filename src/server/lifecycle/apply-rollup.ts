import { sql, type RawBuilder } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { followBuilds } from './deploy-moves.ts';
import { beginJoinedFetches } from './joined-fetches.ts';
import { noteEnding } from './endings.ts';
import { moveGroups, moveHeld } from './held-back.ts';
import { takesFiles } from './lent-files.ts';
import { freeFiles } from './kept-builds.ts';
import type { Group, LifecycleEvent, WriteContext } from './write-context.ts';
import { buildRequestState, commitState, projectState, type BuildFact } from './rollup.ts';
import { lastRun, spanOf } from './last-run.ts';
import {
  buildRequestMachine,
  isFinal,
  type BuildState,
  type CommitState,
  type FetchState,
  type ProjectState,
} from './states.ts';

const countedColumns = [
  'id',
  'suite_id',
  'suite_name',
  'variant',
  'attempt',
  'build_state',
  'created_at',
  'started_at',
  'finished_at',
  'allow_failure',
  'retry',
  'by_machine',
  'series',
  'project_id',
  'needs',
  'files_from',
  'lent_from',
  'approval',
  'approved_by',
  'manual',
  'concurrency_group',
  'held',
  'deploy_id',
] as const satisfies (keyof BuildRow)[];
type CountedBuild = Pick<BuildRow, (typeof countedColumns)[number]>;

/**
 * The newest two attempts of each suite and variant, and the newest that was not cancelled, except builds that do not count for it.
 * The query jumps through the index, so its cost does not grow with the number of attempts.
 */
function buildsOfCommit({ db, trx }: WriteContext, commit: bigint): Promise<CountedBuild[]> {
  const attemptAmong = (which: RawBuilder<unknown>) => sql`
    select builds.id from builds where commit_id = ${commit} and suite_name = built.suite and builds.variant = built.variant
      and counts = 1 and ${which}
    order by attempt desc limit 1`;
  const counted = sql`
    with recursive suites_built(suite) as (
      select min(suite_name) from builds where commit_id = ${commit}
      union all
      select (
        select min(suite_name) from builds where commit_id = ${commit} and suite_name > suites_built.suite
      ) from suites_built where suite is not null
    ),
    built(suite, variant) as (
      select suite, (
        select min(variant) from builds where commit_id = ${commit} and suite_name = suites_built.suite
      ) from suites_built where suite is not null
      union all
      select suite, (
        select min(builds.variant) from builds
        where commit_id = ${commit} and suite_name = built.suite and builds.variant > built.variant
      ) from built where variant is not null
    )
    select (${attemptAmong(sql`true`)}) from built where variant is not null
    union all select (${attemptAmong(sql`true`)} offset 1) from built where variant is not null
    union all select (${attemptAmong(sql`build_state <> 'cancelled'`)}) from built where variant is not null`;
  return trx.selectFrom('builds').select(countedColumns).where(db.isAmong('builds.id', counted)).execute();
}

/**
 * Locks the requests until the transaction ends, before their builds are read. So if builds of two transactions end at
 * the same moment, the second sees the result of the first. Joined requests are locked too, because their states
 * follow. A joining request locks the first one, so none is missed.
 */
export async function holdRequests({ db, trx }: WriteContext, ids: readonly bigint[]) {
  if (ids.length === 0) return [];
  const columns = ['id', 'project_id', 'build_state', 'fetch', 'deploy_id', 'join_key', 'joined_to_id'] as const;
  const requests = trx.selectFrom('build_requests').select(columns).orderBy('id');
  const held = await db.locked(requests.where('id', 'in', ids), 'build_requests').execute();
  const joined = await db.locked(requests.where('joined_to_id', 'in', ids), 'build_requests').execute();
  return [...held, ...joined.filter(({ id }) => !ids.includes(id))];
}

async function holdCommits({ db, trx }: WriteContext, ids: readonly bigint[]) {
  const commits = trx.selectFrom('commits').select(['id', 'project_id', 'build_state']).where('id', 'in', ids);
  return ids.length === 0 ? [] : db.locked(commits.orderBy('id'), 'commits').execute();
}

/** Locks the request, the request that it joined, and the commit if given. */
export async function holdWithFirst(context: WriteContext, requestId: bigint, commitId?: bigint): Promise<void> {
  const requests = context.trx.selectFrom('build_requests').select('joined_to_id').where('id', '=', requestId);
  const first = (await requests.executeTakeFirst())?.joined_to_id ?? null;
  await holdRequests(context, first === null ? [requestId] : [first, requestId]);
  await holdCommits(context, commitId === undefined ? [] : [commitId]);
}

/** Until the transaction ends, no other transaction adds builds to the commit or decides which ones to add. */
export async function holdForBuilds(context: WriteContext, requestId: bigint, commitId?: bigint): Promise<void> {
  await holdRequests(context, [requestId]);
  await holdCommits(context, commitId === undefined ? [] : [commitId]);
}

export async function holdAllForBuilds(
  context: WriteContext,
  builds: readonly Pick<BuildRow, 'build_request_id' | 'commit_id'>[],
): Promise<void> {
  await holdRequests(context, [...new Set(builds.map(({ build_request_id: request }) => request))]);
  await holdCommits(context, [...new Set(builds.map(({ commit_id: commit }) => commit))]);
}

interface Touched {
  commits: readonly bigint[];
  /** Commits that changed only because builds began to run. If such a commit is already `building`, it stays so. */
  begun: ReadonlySet<bigint>;
  requests: readonly bigint[];
  groups: readonly Group[];
}

interface RolledUp {
  moved: LifecycleEvent[];
  changed: bigint[];
}

async function buildsOfRequest(db: Queries, id: bigint): Promise<CountedBuild[]> {
  const builds = db.selectFrom('builds').select(countedColumns).where('build_request_id', '=', id);
  return builds.where('checks_id', 'is', null).execute();
}

/** Also enqueues or skips held builds that need not wait longer. */
export async function rollUpCommits(
  context: WriteContext,
  { commits: commitIds, begun, requests: requestIds, groups }: Touched,
): Promise<RolledUp> {
  const { trx } = context;
  const requests = await holdRequests(context, requestIds);
  const commits = await holdCommits(context, commitIds);
  const moved: LifecycleEvent[] = [];
  const changed: bigint[] = [];
  const buildsOf = new Map<bigint, CountedBuild[]>();
  const changedGroups = [...groups];
  const firstOf = new Map<bigint, CountedBuild[]>();
  for (const { id, joined_to_id: first, fetch } of firstsFirst(requests)) {
    const builds = await buildsOfRequest(trx, id);
    const ofFirst =
      first === null || fetch !== 'done' ? [] : (buildsOf.get(first) ?? (await buildsOfRequest(trx, first)));
    const { hasMoved, events, groups: inLine } = await moveHeld(context, builds, ofFirst);
    buildsOf.set(id, hasMoved ? await buildsOfRequest(trx, id) : builds);
    firstOf.set(id, ofFirst);
    moved.push(...events);
    changedGroups.push(...inLine);
  }
  await moveGroups(context, changedGroups);
  for (const { id, project_id: projectId, build_state: from } of commits) {
    if (from === 'building' && begun.has(id)) continue;
    const state = commitState((await buildsOfCommit(context, id)).map(factOf), 'chosen');
    if (state === from) continue;
    await trx.updateTable('commits').set({ build_state: state }).where('id', '=', id).execute();
    moved.push({ projectId, subjectId: id, type: 'commit', state, from });
    changed.push(projectId);
  }
  for (const request of firstsFirst(requests)) {
    const { id, project_id: projectId, build_state: from, fetch, deploy_id: deploy } = request;
    const builds = buildsOf.get(id) ?? [];
    const state = buildRequestState(fetch as FetchState, builds.map(factOf), firstOf.get(id)?.map(factOf));
    const followed = deploy !== null && (await followBuilds(context, deploy, state, builds.map(factOf)));
    if (followed) moved.push(followed);
    const isOver = isFinal(buildRequestMachine, state);
    // A request that may still join this one could need its files.
    const hasFiles = request.join_key !== '' || builds.some((build) => takesFiles(build));
    if (hasFiles && (state !== from || request.joined_to_id !== null)) await freeFiles(trx, request, isOver);
    if (state === from) continue;
    const span = isOver ? spanOf(lastRun(builds)) : unfinished;
    await trx
      .updateTable('build_requests')
      .set({ build_state: state, ...span })
      .where('id', '=', id)
      .execute();
    if (whileFetched.has(from) && !whileFetched.has(state)) await beginJoinedFetches(context, request);
    moved.push({ projectId, subjectId: id, type: 'build_request', state, from });
    if (isOver) noteEnding(context, { type: 'build_request', id, state });
  }
  return { moved, changed };
}

const unfinished = { started_at: null, finished_at: null };

const whileFetched: ReadonlySet<string> = new Set(['waiting_for_approval', 'enqueued', 'fetching']);

function firstsFirst<Request extends { joined_to_id: bigint | null }>(requests: readonly Request[]): Request[] {
  return requests.toSorted((a, b) => Number(a.joined_to_id !== null) - Number(b.joined_to_id !== null));
}

export interface Decided {
  deciding: bigint | undefined;
  state: ProjectState;
}

/**
 * The state of the default branch's newest commit, or of the newest commit if that branch was never built. The caller
 * has locked the project's row, so the result overwrites nothing newer.
 */
export async function decidedState({ trx }: WriteContext, projectId: bigint): Promise<Decided> {
  const commit = await trx
    .selectFrom('commits')
    .select(['id', 'build_state'])
    .where('id', '=', (of) =>
      of.fn.coalesce(
        of.selectFrom('projects').select('default_head_id').where('id', '=', projectId),
        of.selectFrom('commits').select('id').where('project_id', '=', projectId).orderBy('id', 'desc').limit(1),
      ),
    )
    .executeTakeFirst();
  return { deciding: commit?.id, state: projectState((commit?.build_state as CommitState | undefined) ?? null) };
}

function factOf(build: CountedBuild): BuildFact {
  return {
    suite_id: build.suite_id,
    suite_name: build.suite_name,
    variant: build.variant,
    attempt: build.attempt,
    state: build.build_state as BuildState,
    isAllowedToFail: build.allow_failure === 1,
    isRetry: build.retry > 0 || build.by_machine === 1,
    isManual: build.manual === 1,
    isHeld: build.held === 'needs' && build.deploy_id === null,
    series: build.series,
  };
}
