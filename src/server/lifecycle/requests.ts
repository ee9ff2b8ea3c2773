import type { BuildRequestRow, BuildRow, CommitRow, ProjectRow } from '../db/schema.ts';
import { enqueue } from '../queue/queue.ts';
import { addLine, beginLog, completeLog } from '../streams/logs.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { askedFields } from '../../shared/records/build-request.ts';
import { withDefaults } from '../../shared/records/parameter.ts';
import { projectFields } from '../../shared/records/project.ts';
import { matrixFields } from '../../shared/records/suite.ts';
import { nameWithVariant, variantsOf } from '../../shared/domain/matrix.ts';
import { applying, askForFiles, suitesFor, type Chosen, type SuiteFacts } from './chosen-suites.ts';
import { addBuilds } from './builds.ts';
import { fetchFailed, recordEvent, reportLeftOut, rollUp, applyEffects, type FailedFetch } from './pending-effects.ts';
import { whySkipped } from './skip-marks.ts';
import { leftOutReport } from './status-reports.ts';
import type { WriteContext } from './write-context.ts';
import { builtBefore, byProject, type BuiltBy } from './file-suites.ts';
import { mayHaveMoved } from './includes.ts';
import { isForeign } from './forks.ts';
import { isMerged } from './merges.ts';
import { fetchedAs, isOn } from './own-refs.ts';
import { comparedAlike, storeChanges, withChanges, type Changes } from './request-changes.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { besidesFirst, findFirst, joinedText, joinKey, knownKey } from './joined-requests.ts';
import { beginTrace } from './request-trace.ts';
import { buildRequestMachine, fetchMachine, isFinal, statesBefore, type FetchState } from './states.ts';

export type Owned = Pick<ProjectRow, 'id' | 'owner_id' | 'config_file' | 'build_twice' | 'parameters'> &
  Pick<ProjectRow, 'pull_request_builds'>;

export const requestEvents = ['manual', 'push', 'tag', 'pull_request', 'poll', 'schedule'] as const;
export type RequestEvent = (typeof requestEvents)[number];

export interface Trigger {
  /** `hook:ID`, `poll` or `schedule:ID`. */
  source: string;
  event: Exclude<RequestEvent, 'manual'>;
  pullRequest: bigint | null;
  /** The pushed branch, or the target branch of a pull request. Empty for a tag. */
  targetBranch: string;
  fromFork: boolean;
  /** The forge's name for the user who caused the event, or empty. */
  sender: string;
  /** The repository's own branch whose head is the commit. Blank for a tag or a fork. */
  headBranch?: string;
  /** The branch's SHA before, `none` for a new branch, blank if unknown. */
  before?: string;
  /** The full name of the ref to fetch. Empty if `commitRef` is enough. */
  fetchRef: string;
  /** A newer request of the same group may cancel older ones (triggers.ts). Empty if none may. */
  group: string;
}

export interface NewRequest {
  commitRef: string;
  createdBy: bigint;
  /** Then every approver may approve its builds. */
  isByNobody?: boolean;
  /** Of a request that a user asked for again, the first one's. */
  isAgain?: boolean;
  trigger?: Trigger;
  isHeld?: boolean;
  /** The call's `traceparent` header: the trace that the request belongs to. */
  traceparent?: unknown;
  /** The suites to run, if they apply; by default all. */
  suites?: readonly bigint[];
  suiteNames?: string;
  /** As JSON; none is secret. */
  variables?: string;
  priority?: number;
  /** 0: all suites run, whatever passed before. */
  reuse?: number;
  deployId?: bigint;
  /** Requests that this one may join, already locked (joined-requests.ts). */
  alike?: readonly bigint[];
}

/** Every build starts here. A request begins with a fetch, or at once if everything about its commit is known. */
export async function openRequest(context: WriteContext, project: Owned, asked: NewRequest): Promise<BuildRequestRow> {
  const { trigger, isHeld = false, alike = [] } = asked;
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
    approved: 0,
    sender: trigger?.sender ?? '',
    fetch_ref: trigger?.fetchRef ?? '',
    fetched_as: '',
    asked_by: (trigger && !asked.isAgain) || asked.isByNobody ? null : asked.createdBy,
    concurrency_group: trigger?.group ?? '',
    trace: beginTrace(context, asked.traceparent),
    suites: JSON.stringify(asked.suites?.map(String) ?? []),
    suite_names: asked.suiteNames ?? '[]',
    failure_reason: '',
    before: trigger?.before ?? '',
    ...byProject,
    variables: variablesOf(project, asked),
    priority: asked.priority ?? 0,
    reuse: asked.reuse ?? 1,
    deploy_id: asked.deployId ?? null,
    join_key: joinKey(asked.commitRef, trigger?.headBranch ?? ''),
    joined_to_id: null,
    head_sha: '',
    merge_base: '',
    started_at: null,
    finished_at: null,
  };
  const { trx } = context;
  const expected = isHeld ? undefined : await findFirst(context, project, request, { alike });
  const waits = isHeld || (expected !== undefined && !isFinal(fetchMachine, expected.fetch as FetchState));
  const mayBeKnown = !waits && !isMerged(project, request);
  const commit = mayBeKnown ? await findKnown(context, request) : undefined;
  const fetched = commit && { ...request, ...asFetched(request, commit, { branch: commit.branch, ref: null }) };
  const known = fetched && (await knownSuites(context, project, fetched, { commit, alike }));
  // A known commit decides whether it is from a fork, even if other facts about it must be fetched.
  const from_fork = fetched?.from_fork ?? request.from_fork;
  const joined_to_id = (known ? known.first : expected)?.id ?? null;
  await trx
    .insertInto('build_requests')
    .values({ ...(known ? { ...fetched, ...known.file } : { ...request, from_fork }), joined_to_id })
    .execute();
  if (known?.changes) await storeChanges(context, request.id, known.changes);
  await beginLog(trx, request.id, project.id, { isComplete: known !== undefined && !known.first });
  if (known?.first) await endLog(context, request.id, joinedText(known.first));
  announceRequest(context, request);
  if (known) await startKnown(context, project, request, known);
  else if (!waits) await enqueueFetch(context, project, request.id);
  return { ...request, from_fork, joined_to_id };
}

/** The project's parameters have defaults, whatever a branch's file says. */
function variablesOf(project: Pick<ProjectRow, 'parameters'>, { variables = '{}' }: NewRequest): string {
  const given = askedFields.variables.fromColumn(variables);
  return askedFields.variables.toColumn(withDefaults(projectFields.parameters.fromColumn(project.parameters), given));
}

async function endLog({ db, trx }: WriteContext, requestId: bigint, ...lines: string[]): Promise<void> {
  for (const line of lines) await addLine(db, trx, requestId, line);
  await completeLog(db, trx, requestId);
}

export async function approveRequest(context: WriteContext, project: Owned, requestId: bigint): Promise<boolean> {
  if (!(await moveFetch(context, requestId, 'waiting'))) return false;
  await context.trx.updateTable('build_requests').set({ approved: 1 }).where('id', '=', requestId).execute();
  await enqueueFetch(context, project, requestId);
  await applyEffects(context);
  return true;
}

function announceRequest(
  context: WriteContext,
  { project_id: projectId, id, build_state: state }: BuildRequestRow,
): void {
  recordEvent(context, { projectId, subjectId: id, type: 'build_request', state });
}

export async function enqueueFetch({ db, trx, ids }: WriteContext, project: Owned, requestId: bigint): Promise<void> {
  // The request's row holds the project, so a hand-over either sees the job or has happened.
  const { owner_id: accountId, priority } = await trx
    .selectFrom('projects')
    .innerJoin('build_requests', 'build_requests.project_id', 'projects.id')
    .select(['projects.owner_id', 'build_requests.priority'])
    .where('projects.id', '=', project.id)
    .where('build_requests.id', '=', requestId)
    .executeTakeFirstOrThrow();
  await enqueue(db, trx, ids, { kind: 'fetch_commit', subjectId: requestId, accountId, priority });
}

/** The known commit, locked. Undefined if it is unknown or not on the request's ref. */
async function findKnown({ db, trx }: WriteContext, request: BuildRequestRow): Promise<CommitRow | undefined> {
  const { project_id: project, commit_ref: ref } = request;
  if (!/^[0-9a-f]{40}$/.test(ref)) return undefined;
  const commits = trx.selectFrom('commits').selectAll().where('project_id', '=', project).where('ref', '=', ref);
  const commit = await db.locked(commits.where('merge_of', '=', ''), 'commits').executeTakeFirst();
  return commit && isOn(commit, request.fetch_ref) ? commit : undefined;
}

interface Known {
  commit: CommitRow;
  suites: Chosen;
  first: BuildRequestRow | undefined;
}

/**
 * Undefined if the commit's file was not read yet, or if a rule needs changed files and no request had the same base.
 */
async function knownSuites(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { commit, alike }: Pick<Facts, 'commit' | 'alike'>,
): Promise<(Known & { file: BuiltBy; changes: Changes | undefined }) | undefined> {
  const { trx } = context;
  const { config_file: path } = project;
  const isByProject = path === '' || request.from_fork === 1;
  const file = isByProject ? byProject : await builtBefore(trx, commit.id, path);
  if (!file || mayHaveMoved(file)) return undefined;
  const suites = await suitesFor(trx, request.project_id, commit, file);
  const isAsked = askForFiles(suites, request);
  const changes = isAsked ? await comparedAlike(trx, commit, request) : undefined;
  if (isAsked && !changes) return undefined;
  const changed = { ...commit, files: changes?.files ?? commit.files };
  return { ...(await choose(context, project, request, { commit, alike, changed, facts: suites })), file, changes };
}

interface Facts {
  commit: CommitRow;
  alike: readonly bigint[];
  changed: CommitRow;
  facts: readonly SuiteFacts[];
}

/** Excludes suites that run in the request that it joins. */
async function choose(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  { commit, alike, changed, facts }: Facts,
): Promise<Known> {
  const first = await findFirst(context, project, request, { alike, commit });
  const suites = await applying(context, project.owner_id, facts, changed, request);
  return { commit, first, suites: first ? await besidesFirst(context, { request, first, commit }, suites) : suites };
}

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

/** There will be no commit and no build, so notifications report this instead. */
export async function failFetch(context: WriteContext, requestId: bigint, failure: FailedFetch): Promise<void> {
  if (!(await moveFetch(context, requestId, 'errored'))) return;
  const { reason: failure_reason, merge = {} } = failure;
  const requests = context.trx.updateTable('build_requests').set({ failure_reason, ...merge });
  await requests.where('id', '=', requestId).execute();
  fetchFailed(context, requestId, failure);
}

export interface FoundBeside {
  branch: string;
  ref: string | null;
  alike: readonly bigint[];
  file?: BuiltBy;
  changes?: Changes | undefined;
}

/** The caller has locked the requests that this one may join. */
export async function startSuites(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
  { file = request, changes, alike, ...found }: FoundBeside,
): Promise<void> {
  const { trx } = context;
  const { config_file, config_digest, includes } = file;
  const join_key = knownKey(request, commit);
  const { head_sha, merge_base } = request;
  const own = { config_file, config_digest, includes, failure_reason: '', join_key, head_sha, merge_base };
  const fetched = { ...asFetched(request, commit, found), ...own };
  if (changes) await storeChanges(context, request.id, changes);
  await holdForBuilds(context, request.id, commit.id);
  const facts = await suitesFor(trx, project.id, commit, fetched);
  const changed = await withChanges(trx, request.id, commit);
  const known = await choose(context, project, { ...request, ...fetched }, { commit, alike, changed, facts });
  const joined = { ...fetched, joined_to_id: known.first?.id ?? null };
  await trx.updateTable('build_requests').set(joined).where('id', '=', request.id).execute();
  const lines = [whySkipped(commit, request), known.first && joinedText(known.first)];
  await endLog(context, request.id, ...lines.filter((line) => line !== undefined));
  await startKnown(context, project, request, known);
}

async function startKnown(
  context: WriteContext,
  { id: projectId, owner_id: accountId }: Owned,
  { id: requestId, deploy_id: deployId, asked_by: askedBy, head_sha: headSha }: BuildRequestRow,
  { commit, suites: { planned: tried, leftOut } }: Known,
): Promise<void> {
  const { id: commitId } = commit;
  const ref = headSha || commit.ref;
  await addBuilds(context, { projectId, accountId, commitId, requestId, askedBy }, tried);
  for (const { suite, rule } of deployId === null ? leftOut : [])
    if (!(await wasBuilt(context, { projectId, ref }, suite.name)))
      for (const variant of variantsOf(valuesIn(matrixFields, suite)))
        reportLeftOut(
          context,
          projectId,
          leftOutReport({ projectId, requestId, ref, name: nameWithVariant(suite.name, variant), rule }),
        );
  rollUp(context, { commit: commitId, request: requestId, project: projectId });
}

/** If the suite was built for a head, also merged, a request that skips it must not replace its status at a forge. */
async function wasBuilt(
  { trx }: WriteContext,
  { projectId, ref }: { projectId: bigint; ref: string },
  suite: string,
): Promise<boolean> {
  const commits = trx.selectFrom('commits').select('id').where('project_id', '=', projectId);
  const merges = trx.selectFrom('build_requests').select('id').where('project_id', '=', projectId);
  const builds = trx
    .selectFrom('builds')
    .select('id')
    .where((where) =>
      where.or([
        where('commit_id', 'in', commits.where('ref', '=', ref)),
        where('build_request_id', 'in', merges.where('head_sha', '>', '').where('head_sha', '=', ref)),
      ]),
    )
    .where('suite_name', '=', suite)
    .where('counts', '=', 1);
  return (await builds.limit(1).executeTakeFirst()) !== undefined;
}

type Fetched = Pick<BuildRequestRow, 'commit_id' | 'fetch' | 'branch' | 'from_fork' | 'fetched_as'>;

function asFetched(
  request: BuildRequestRow,
  commit: CommitRow,
  { branch, ref }: Pick<FoundBeside, 'branch' | 'ref'>,
): Fetched {
  const branches = JSON.parse(commit.branches) as string[];
  // A push belongs to one of these branches, a pull request to none.
  const pushed = branches.includes(request.target_branch) && request.pull_request === null ? request.target_branch : '';
  return {
    commit_id: commit.id,
    fetch: 'done' satisfies FetchState,
    branch: pushed || branch || (branches[0] ?? ''),
    from_fork: request.from_fork === 1 || isForeign(commit) ? 1 : 0,
    fetched_as: fetchedAs(request, commit, ref),
  };
}

export async function buildsOf({ trx }: WriteContext, request: Pick<BuildRequestRow, 'id'>): Promise<BuildRow[]> {
  return trx.selectFrom('builds').selectAll().where('build_request_id', '=', request.id).orderBy('id').execute();
}
