import type { BuildRequestRow, BuildRow, CommitRow, ProjectRow } from '../db/schema.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { addLine, beginLog, completeLog } from '../streams/logs.ts';
import { valuesIn } from '../records/fields.ts';
import { matrixFields } from '../records/suite.ts';
import { nameWithVariant, variantsOf } from '../domain/matrix.ts';
import { applying, askForFiles, suitesFor, type Chosen } from './chosen-suites.ts';
import { addBuilds, cancelHeld, cancelQueued } from './builds.ts';
import { fetchFailed, recordEvent, reportLeftOut, rollUp, applyEffects, type FailedFetch } from './pending-effects.ts';
import { whySkipped } from './skip-marks.ts';
import { leftOutReport } from './status-reports.ts';
import type { WriteContext } from './write-context.ts';
import { builtBefore, byProject, type BuiltBy } from './file-suites.ts';
import { isForeign } from './forks.ts';
import { comparedAlike, storeChanges, withChanges, type Changes } from './request-changes.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { beginTrace } from './traces.ts';
import { buildRequestMachine, fetchMachine, isFinal, statesBefore, type FetchState } from './states.ts';

export type Owned = Pick<ProjectRow, 'id' | 'owner_id' | 'config_file'>;

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
  /** The SHA that the branch had before, or `none` for a new branch; blank where the trigger does not say. */
  before?: string;
  /** The full name of the ref to fetch the commit by; empty where `commitRef` is enough. */
  fetchRef: string;
  /** The branch or pull request in which a newer request may cancel older ones (triggers.ts); empty where none may. */
  group: string;
}

export interface NewRequest {
  commitRef: string;
  createdBy: bigint;
  trigger?: Trigger;
  /** Whether it waits until a user of the project approves it. */
  isHeld?: boolean;
  /** The `traceparent` header of the call, if there was one: the trace that the request belongs to. */
  traceparent?: unknown;
  /** The suites that are to run, if they apply; by default all. */
  suites?: readonly bigint[];
  /** As JSON; none of them is a secret. */
  variables?: string;
  /** The deploy that it is for. */
  deployId?: bigint;
}

/**
 * Every build starts here. A request begins with the fetch of its commit. If the commit and everything about it is
 * known already, the suites start at once.
 */
export async function openRequest(context: WriteContext, project: Owned, asked: NewRequest): Promise<BuildRequestRow> {
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
    failure_reason: '',
    before: trigger?.before ?? '',
    ...byProject,
    variables: asked.variables ?? '{}',
    deploy_id: asked.deployId ?? null,
  };
  const { trx } = context;
  const commit = isHeld ? undefined : await findKnown(context, request);
  const fetched = commit && { ...request, ...fetchedAs(request, commit, commit.branch) };
  const known = fetched && (await knownSuites(context, project, fetched, commit));
  // A known commit decides on this, even if something of it has to be fetched.
  const from_fork = fetched?.from_fork ?? request.from_fork;
  await trx
    .insertInto('build_requests')
    .values(known ? { ...fetched, ...known.file } : { ...request, from_fork })
    .execute();
  if (known?.changes) await storeChanges(context, request.id, known.changes);
  await beginLog(trx, request.id, project.id, { isComplete: known !== undefined });
  announceRequest(context, request);
  if (known) await startKnown(context, project, request, known);
  else if (!isHeld) await enqueueFetch(context, project, request.id);
  return { ...request, from_fork };
}

/** Lets a request continue that waits for approval; false when it does not wait for one. */
export async function approveRequest(context: WriteContext, project: Owned, requestId: bigint): Promise<boolean> {
  if (!(await moveFetch(context, requestId, 'waiting'))) return false;
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
  await enqueue(db, trx, ids, { kind: 'fetch_commit', subjectId: requestId, accountId: project.owner_id });
}

/** The commit that a request names, locked, if it is known and on the ref that the request says. */
async function findKnown({ db, trx }: WriteContext, request: BuildRequestRow): Promise<CommitRow | undefined> {
  const { project_id: project, commit_ref: ref } = request;
  if (!/^[0-9a-f]{40}$/.test(ref)) return undefined;
  const commits = trx.selectFrom('commits').selectAll().where('project_id', '=', project).where('ref', '=', ref);
  const commit = await db.locked(commits, 'commits').executeTakeFirst();
  return commit && isOn(commit, request.fetch_ref) ? commit : undefined;
}

/** A locked commit, and the suites that apply to it. */
interface Known {
  commit: CommitRow;
  suites: Chosen;
}

/**
 * The suites of a known commit, by what other requests have found. Undefined where the file of the commit was not read
 * yet, or where a rule asks for changed files and no other request was compared with the same.
 */
async function knownSuites(
  context: WriteContext,
  { owner_id: account, config_file: path }: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
): Promise<(Known & { file: BuiltBy; changes: Changes | undefined }) | undefined> {
  const { trx } = context;
  const isByProject = path === '' || request.from_fork === 1;
  const file = isByProject ? byProject : await builtBefore(trx, commit.id, path);
  if (!file) return undefined;
  const suites = await suitesFor(trx, request.project_id, commit, file);
  const isAsked = askForFiles(suites, request);
  const changes = isAsked ? await comparedAlike(trx, commit, request) : undefined;
  if (isAsked && !changes) return undefined;
  const changed = { ...commit, files: changes?.files ?? commit.files };
  return { commit, suites: await applying(context, account, suites, changed, request), file, changes };
}

/** Whether a known commit is on the branch, or has the tag, that the ref names. */
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
export async function failFetch(context: WriteContext, requestId: bigint, failure: FailedFetch): Promise<void> {
  if (!(await moveFetch(context, requestId, 'errored'))) return;
  const requests = context.trx.updateTable('build_requests').set({ failure_reason: failure.reason });
  await requests.where('id', '=', requestId).execute();
  fetchFailed(context, requestId, failure);
}

/** What a fetch found in addition to the commit. */
export interface FoundBeside {
  branch: string;
  file?: BuiltBy;
  changes?: Changes | undefined;
}

/** The commit was fetched: the suites that apply to it start. */
export async function startSuites(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  commit: CommitRow,
  { branch, file = request, changes }: FoundBeside,
): Promise<void> {
  const { trx } = context;
  const { config_file, config_digest } = file;
  const fetched = { ...fetchedAs(request, commit, branch), config_file, config_digest, failure_reason: '' };
  if (changes) await storeChanges(context, request.id, changes);
  await trx.updateTable('build_requests').set(fetched).where('id', '=', request.id).execute();
  const skipped = whySkipped(commit, request);
  if (skipped !== undefined) await addLine(context.db, trx, request.id, skipped);
  await completeLog(context.db, trx, request.id);
  await holdForBuilds(context, request.id, commit.id);
  const facts = await suitesFor(trx, project.id, commit, fetched);
  const changed = await withChanges(trx, request.id, commit);
  const suites = await applying(context, project.owner_id, facts, changed, { ...request, ...fetched });
  await startKnown(context, project, request, { commit, suites });
}

async function startKnown(
  context: WriteContext,
  { id: projectId, owner_id: accountId }: Owned,
  { id: requestId, deploy_id: deployId }: BuildRequestRow,
  { commit, suites: { tried, leftOut } }: Known,
): Promise<void> {
  const { id: commitId } = commit;
  await addBuilds(context, { projectId, accountId, commitId, requestId }, tried);
  for (const { suite, rule } of deployId === null ? leftOut : [])
    if (!(await wasBuilt(context, commitId, suite.name)))
      for (const variant of variantsOf(valuesIn(matrixFields, suite)))
        reportLeftOut(
          context,
          projectId,
          leftOutReport({ projectId, requestId, ref: commit.ref, name: nameWithVariant(suite.name, variant), rule }),
        );
  rollUp(context, { commit: commitId, request: requestId, project: projectId });
}

/**
 * Whether the suite has a build on the commit. Its status at a forge must not be replaced by that of a request that
 * leaves the suite out.
 */
async function wasBuilt({ trx }: WriteContext, commitId: bigint, suite: string): Promise<boolean> {
  const builds = trx
    .selectFrom('builds')
    .select('id')
    .where('commit_id', '=', commitId)
    .where('suite_name', '=', suite)
    .where('deploy_id', 'is', null);
  return (await builds.limit(1).executeTakeFirst()) !== undefined;
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

/** Cancels the fetch and every unfinished build. */
export async function cancelRequest(context: WriteContext, request: BuildRequestRow): Promise<void> {
  await cancelRequests(context, [request]);
  await applyEffects(context);
}

/** Cancels several, in the order of locks: all jobs first. The caller applies the effects. */
export async function cancelRequests(context: WriteContext, requests: readonly BuildRequestRow[]): Promise<void> {
  const open = requests.filter(({ fetch }) => !isFinal(fetchMachine, fetch as FetchState)).map(({ id }) => id);
  const fetches = await cancel(context.db, context.trx, open);
  // Builds exist once the fetch is over, which may be since the request was read.
  const fetched = requests.filter(({ id }) => (fetches.get(id) ?? 'none') === 'none');
  const read = async (): Promise<BuildRow[]> => {
    const builds: BuildRow[] = [];
    for (const request of fetched) builds.push(...(await buildsOf(context, request)));
    return builds;
  };
  const held = await cancelQueued(context, await read(), read);
  for (const id of open) if (fetches.get(id) !== 'signalled') await moveFetch(context, id, 'cancelled');
  await cancelHeld(context, held);
}

/** The builds of a request, oldest attempt first. */
export async function buildsOf({ trx }: WriteContext, request: Pick<BuildRequestRow, 'id'>): Promise<BuildRow[]> {
  return trx.selectFrom('builds').selectAll().where('build_request_id', '=', request.id).orderBy('id').execute();
}
