import { sql, type SqlBool } from 'kysely';
import { insertRows } from '../db/insert.ts';
import { runAgain } from '../db/open.ts';
import type { BuildRow, SuiteRow } from '../db/schema.ts';
import { amongVariants } from '../../shared/domain/matrix.ts';
import { matrixFields } from '../../shared/records/suite.ts';
import { columnsInVariant } from '../../shared/records/variant-settings.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { cancel, enqueue, holdWaitingJobs, retag, type Cancelled } from '../queue/queue.ts';
import { addTried } from '../queue/tried.ts';
import { addLine, beginLogs } from '../streams/logs.ts';
import { writeMove, type BuildEnding, type MovedBuild } from './build-moves.ts';
import { settingsOf } from './file-suites.ts';
import { leaveGroup, recordEvent, rollUp } from './pending-effects.ts';
import { lentColumn, lentNames } from './lent-files.ts';
import { cappedPriority, priorityOf } from './priorities.ts';
import { tooSlow, type Rule } from './rules.ts';
import { stoodOnTheSame, stopReuse } from './reuse-checks.ts';
import { watchSteps } from './slow-steps.ts';
import { isTriedAgain, mostTries, pauseAfter } from './tries.ts';
import { waitingSteps } from './build-steps.ts';
import { subjectTopic, type WriteContext } from './write-context.ts';
import { holdAllForBuilds, holdForBuilds } from './apply-rollup.ts';
import { dropPoints, lastPoint, resumes } from './step-points.ts';
import { groupOf, holdGroups, jobFor, type Held } from './held-back.ts';
import { buildMachine, isFinal, type BuildState } from './states.ts';

export type LossReason = 'runner_lost' | 'files_gone';

/** False if the build's current state does not allow the move. */
export async function advanceBuild(
  context: WriteContext,
  build: Pick<BuildRow, 'id'>,
  to: BuildState,
  ending: BuildEnding = {},
): Promise<boolean> {
  const moved = await moveBuild(context, build, to, ending);
  if (!moved) return false;
  if (isFinal(buildMachine, to)) await dropPoints(context.trx, moved);
  const { commit_id: commit, build_request_id: request, deploy_id: deploy } = moved;
  if (moved.checks_id !== null) return true;
  if (to !== 'running') rollUp(context, { commit, request });
  // The request is already `building`, and no build in it waits for this one to start. Only a deploy begins with its
  // build, so its request is rolled up too.
  else rollUp(context, { begunOf: commit, ...(deploy !== null && { request }) });
  return true;
}

async function moveBuild(
  context: WriteContext,
  build: Pick<BuildRow, 'id'>,
  to: BuildState,
  ending: BuildEnding,
): Promise<MovedBuild | undefined> {
  const moved = await writeMove(context, build, to, ending);
  if (!moved) return undefined;
  const { id: subject, project_id: projectId, concurrency_group: name, checks_id: checked } = moved.build;
  if (checked === null) recordEvent(context, moved.event);
  else await context.db.announce(context.trx, subjectTopic(subject)); // nobody but its page is told of it
  if (name !== '' && isFinal(buildMachine, to)) leaveGroup(context, { projectId, name });
  return moved.build;
}

export interface BuildContext {
  projectId: bigint;
  accountId: bigint;
  commitId: bigint;
  requestId: bigint;
  /** null for automatic builds. */
  askedBy: bigint | null;
}

export type Subject = Pick<BuildRow, 'suite_name' | 'variant' | 'deploy_id'>;

export interface PlannedBuild {
  suiteId: bigint | null;
  suiteName: string;
  variant: string;
  last: number;
  /** The series of the next attempt; undefined starts a new one. */
  series?: bigint;
  isDeleted?: boolean;
  /** The suite's settings begin here. */
  steps: string;
  tags: string;
  allowFailure: number;
  retries: number;
  resume?: number;
  /** With the request's. */
  priority: number;
  needs: readonly string[];
  /** The needed suite whose files the build starts with, or blank. */
  filesFrom: string;
  /** The needed suites whose files the build gets beside the checkout. */
  lentFrom: readonly string[];
  approval: number;
  approvers: string;
  manual: number;
  group: string;
  /** Whether its builds get tokens that name the ref. */
  hasIdTokens?: boolean;
  deployId: bigint | null;
  /** A build with the same inputs may stand for it. */
  mayReuse?: boolean;
  /** A rule that took too long. Then the build does not run and shows this reason. */
  slow?: Rule;
}

/** 1 if the suite may fail, or its `matrix_allow_failure` names the variant. */
export function allowedFailures(
  suite: Pick<SuiteRow, 'allow_failure' | 'matrix_allow_failure'>,
): (variant: string) => number {
  const isNamed = amongVariants(matrixFields.matrix_allow_failure.fromColumn(suite.matrix_allow_failure));
  return (variant) => (suite.allow_failure === 1 || isNamed(variant) ? 1 : 0);
}

/**
 * Attempt numbers include attempts of deploys. The commit is locked, so no other transaction makes the same next
 * attempt.
 */
export async function triedBefore(
  { trx }: WriteContext,
  { commitId, requestId }: Pick<BuildContext, 'commitId' | 'requestId'>,
  subjects: Subject[],
): Promise<PlannedBuild[]> {
  const tried: PlannedBuild[] = [];
  for (const { suite_name: suiteName, variant, deploy_id: deployId } of subjects) {
    const last = await trx
      .selectFrom('builds')
      .select(['project_id', 'build_request_id', 'suite_id', 'suite_name', 'series'])
      .select(['needs', 'files_from', 'lent_from', 'approval', 'approvers', 'manual', 'concurrency_group'])
      .select((of) =>
        of
          .selectFrom('builds as any')
          .select((each) => each.fn.max('any.attempt').as('attempt'))
          .where('any.commit_id', '=', commitId)
          .where('any.suite_name', '=', suiteName)
          .where('any.variant', '=', variant)
          .as('attempt'),
      )
      .select((of) =>
        of.selectFrom('build_requests').select('priority').where('id', '=', requestId).as('asked_priority'),
      )
      .where('commit_id', '=', commitId)
      .where('suite_name', '=', suiteName)
      .where('variant', '=', variant)
      .where('deploy_id', deployId === null ? 'is' : '=', deployId)
      .orderBy('builds.attempt', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow();
    const settings = await settingsOf(trx, { ...last, variant });
    const suites = trx
      .selectFrom('suites')
      .select(['approval', 'approvers', 'priority'])
      .where('id', '=', last.suite_id);
    const now = await suites.executeTakeFirst(); // an approval required since then also applies to old builds
    tried.push({
      suiteId: last.suite_id,
      suiteName,
      variant,
      last: Number(last.attempt),
      series: last.series,
      isDeleted: settings === undefined,
      steps: settings?.steps ?? '[]',
      tags: settings?.tags ?? '',
      allowFailure: settings ? allowedFailures(settings)(variant) : 0,
      retries: settings?.retries ?? 0,
      ...(settings && { resume: settings.resume }),
      priority: priorityOf(cappedPriority(settings, now), last.asked_priority),
      needs: JSON.parse(last.needs) as string[],
      filesFrom: last.files_from,
      lentFrom: lentNames(last),
      approval: Math.max(last.approval, now?.approval ?? 0),
      approvers: now?.approvers ?? last.approvers,
      manual: last.manual,
      group: last.concurrency_group,
      deployId,
    });
  }
  return tried;
}

interface Continued extends Pick<BuildRow, 'retry' | 'retries_left' | 'faults' | 'by_machine'> {
  approvedBy: string;
  /** As in JobRow. */
  triedBy: string | null;
  runAfter?: number;
  /** Where the attempt begins, if not at its first step. */
  point?: Pick<BuildRow, 'from_step' | 'from_build'> | undefined;
}

/**
 * Enqueues the attempts, except held builds. Held builds wait for the request's roll-up, which the caller must request.
 * An attempt that continues another is not held again.
 */
export async function addBuilds(
  context: WriteContext,
  { projectId, accountId, commitId, requestId, askedBy }: BuildContext,
  suites: PlannedBuild[],
  continued?: Continued,
): Promise<BuildRow[]> {
  const { db, trx, ids } = context;
  if (suites.length === 0) return [];
  const { retry = 0, retries_left: retriesLeft, faults = 0, by_machine = 0, approvedBy = '' } = continued ?? {};
  const { triedBy = null, runAfter = 0, point = { from_step: '', from_build: null } } = continued ?? {};
  const newSeries = ids.next();
  const heldBy = ({ needs, approval, group, slow }: PlannedBuild): Held =>
    !slow && !continued && (needs.length > 0 || approval === 1 || group !== '') ? 'needs' : '';
  const builds = suites.map((suite): BuildRow => ({
    id: ids.next(),
    project_id: projectId,
    build_request_id: requestId,
    commit_id: commitId,
    suite_id: suite.suiteId,
    suite_name: suite.suiteName,
    build_state: buildMachine.initial,
    attempt: suite.last + 1,
    exit_status: null,
    failure_reason: '',
    created_at: BigInt(Date.now()),
    started_at: null,
    finished_at: null,
    variant: suite.variant,
    allow_failure: suite.allowFailure,
    retry,
    retries_left: retriesLeft ?? suite.retries,
    faults,
    by_machine,
    series: suite.series ?? newSeries,
    tests_passed: 0,
    tests_failed: 0,
    tests_skipped: 0,
    uploads: '',
    usage: '',
    output_from: null,
    output_to: null,
    steps: waitingSteps(suite.steps),
    services: '[]',
    needs: JSON.stringify(suite.needs),
    files_from: suite.filesFrom,
    files_of: null,
    lent_from: lentColumn(suite.lentFrom),
    lent_by: '[]',
    ...point,
    resume: resumes(suite) ? 1 : 0,
    approval: suite.approval,
    approvers: suite.approvers,
    manual: suite.manual,
    approved_by: approvedBy,
    asked_by: askedBy,
    limited: '[]',
    withheld: '[]',
    step_commands: '[]',
    concurrency_group: suite.group,
    held: heldBy(suite),
    deploy_id: suite.deployId,
    priority: suite.priority,
    counts: suite.deployId === null ? 1 : 0,
    may_reuse: suite.mayReuse ? 1 : 0,
    reused_from_id: null,
    checks_id: null,
  }));
  const buildIds = builds.map(({ id }) => id);
  await insertRows(trx, 'builds', builds);
  await beginLogs(trx, buildIds, projectId);
  for (const subjectId of buildIds)
    recordEvent(context, { projectId, subjectId, type: 'build', state: buildMachine.initial });
  await db.announce(trx, subjectTopic(requestId)); // followers of the request follow its builds
  const jobs = builds.flatMap(({ id: subjectId, held, may_reuse: mayReuse }, at) => {
    const { tags = '', priority = 0, slow } = suites[at] ?? {};
    return slow || held !== ''
      ? []
      : [{ kind: jobFor(mayReuse), subjectId, accountId, triedBy, runAfter, tags, priority }];
  });
  if (jobs.length > 0) await enqueue(db, trx, ids, ...jobs);
  for (const [at, build] of builds.entries()) {
    const slow = suites[at]?.slow;
    if (!slow) continue;
    await addLine(db, trx, build.id, tooSlow(slow));
    await moveBuild(context, build, 'errored', { failure_reason: 'rule_too_slow' });
  }
  return builds;
}

const fromTheBeginning =
  'This starts at the first step: the attempt whose runner was lost left no files for another runner.';

type Job = Pick<ClaimedJob, 'account_id' | 'holder' | 'tried_by' | 'cancelled'>;

/** For a lost runner or lost files. Makes the next attempt in the same transaction, whatever the suite's settings. */
export async function loseBuild(
  context: WriteContext,
  build: BuildRow,
  job: Job,
  reason: LossReason = 'runner_lost',
): Promise<void> {
  const moved = await moveBuild(context, build, 'errored', { failure_reason: reason });
  if (!moved) return;
  if (moved.checks_id !== null) return dropPoints(context.trx, moved);
  const isContinued = moved.faults + 1 < mostTries;
  const point = isContinued && moved.resume === 1 ? await lastPoint(context.trx, moved) : undefined;
  let next: BuildRow | undefined;
  if (isContinued) {
    const triedBy = reason === 'files_gone' ? job.tried_by : addTried(job);
    next = await continueBuild(context, moved, job, { ...moved, ...byMachine(moved), triedBy, point });
  }
  if (!point || next?.resume !== 1) await dropPoints(context.trx, moved);
  if (!point && next?.resume === 1) await addLine(context.db, context.trx, next.id, fromTheBeginning);
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
}

/** The next attempt is made in the same transaction, so commit and request do not fail in between. */
export async function endBuild(
  context: WriteContext,
  { id, job, isInLog }: { id: bigint; job: Job; isInLog: boolean },
  state: BuildState,
  ending: BuildEnding,
): Promise<void> {
  const build = await moveBuild(context, { id }, state, ending);
  if (!build) return;
  await dropPoints(context.trx, build);
  if (build.checks_id !== null) {
    if (state === 'failed' && (await stoodOnTheSame(context.trx, build.id, build.checks_id)))
      await stopReuse(context, build);
    return;
  }
  if (ending.steps) await watchSteps(context, build, ending.steps);
  const next =
    job.cancelled === 1 || state === 'passed'
      ? undefined
      : await nextTry(context, build, job, { state, ending, isInLog });
  if (next) await continueBuild(context, build, job, next);
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
}

type Next = Omit<Continued, 'approvedBy'>;

async function nextTry(
  { trx }: WriteContext,
  build: MovedBuild,
  job: Job,
  { state, ending, isInLog }: { state: BuildState; ending: BuildEnding; isInLog: boolean },
): Promise<Next | undefined> {
  const { exit_status: exitStatus = null, failure_reason: reason = '' } = ending;
  const settings = build.faults + 1 < mostTries ? await settingsOf(trx, build) : undefined;
  if (settings && isTriedAgain(settings, { state, reason, exitStatus, isInLog })) {
    const runAfter = Date.now() + pauseAfter(build.faults);
    return { ...build, ...byMachine(build), triedBy: addTried(job), runAfter };
  }
  const { retry, retries_left: left } = build;
  if ((state !== 'failed' && state !== 'timed_out') || left === 0) return undefined;
  return { ...build, retry: retry + 1, retries_left: left - 1, by_machine: 0, triedBy: job.tried_by };
}

function byMachine({ faults }: Pick<BuildRow, 'faults'>): Pick<BuildRow, 'faults' | 'by_machine'> {
  return { faults: faults + 1, by_machine: 1 };
}

async function continueBuild(
  context: WriteContext,
  build: MovedBuild,
  { account_id: accountId }: Job,
  next: Next,
): Promise<BuildRow | undefined> {
  const { project_id: projectId, commit_id: commitId, build_request_id: requestId, approved_by: approvedBy } = build;
  await holdForBuilds(context, requestId, commitId);
  const tried = await triedBefore(context, { commitId, requestId }, [build]);
  const suites = tried.filter(({ isDeleted }) => !isDeleted);
  const about = { projectId, accountId, commitId, requestId, askedBy: null };
  const [made] = await addBuilds(context, about, suites, { ...next, approvedBy });
  return made;
}

/**
 * Builds configured by a file keep the file's tags. Searches jobs, because an account has few waiting jobs compared to
 * its builds.
 */
export async function retagBuilds(
  { db, trx }: WriteContext,
  { accountId, suiteId, tags }: { accountId: bigint; suiteId: bigint; tags: string },
): Promise<void> {
  if (!tags.includes('$')) return retag(db, trx, { accountId, which: buildsSuites([suiteId]), tags });
  await holdWaitingJobs(db, trx, { accountId, which: buildsSuites([suiteId]) });
  const variants = await trx
    .selectFrom('jobs')
    .innerJoin('builds', 'builds.id', 'jobs.subject_id')
    .select('builds.variant')
    .distinct()
    .where('jobs.account_id', '=', accountId)
    .where('jobs.claim', 'is', null)
    .where('builds.suite_id', '=', suiteId)
    .execute();
  for (const { variant } of variants)
    await retag(db, trx, {
      accountId,
      which: buildsSuites([suiteId], variant),
      tags: columnsInVariant({ tags }, variant).tags,
    });
}

/**
 * Call before changing some suites' tags and deleting other suites. It locks the jobs of all their waiting builds
 * before any of them changes.
 */
export async function holdWaitingBuilds(
  { db, trx }: WriteContext,
  { accountId, suites }: { accountId: bigint; suites: readonly bigint[] },
): Promise<void> {
  if (suites.length > 0) await holdWaitingJobs(db, trx, { accountId, which: buildsSuites(suites) });
}

/** Matches jobs whose build belongs to these suites and uses the project's settings instead of a file's. */
const buildsSuites = (suites: readonly bigint[], variant?: string) => sql<SqlBool>`exists (
  select 1 from builds inner join build_requests on build_requests.id = builds.build_request_id
  where builds.id = jobs.subject_id and builds.suite_id in (${sql.join(suites)}) and build_requests.config_digest = ''
    and ${variant === undefined ? sql`true` : sql`builds.variant = ${variant}`}
)`;

export async function cancelBuilds(context: WriteContext, builds: readonly BuildRow[]): Promise<void> {
  await cancelHeld(context, await cancelQueued(context, builds));
}

/**
 * Cancels builds with jobs and returns the rest, whose requests must be locked first. A build that ended since it was
 * read may have a next attempt: `reread` finds it before any build is locked.
 */
export async function cancelQueued(
  context: WriteContext,
  builds: readonly BuildRow[],
  reread: () => Promise<BuildRow[]> = async () => [],
  ending: BuildEnding = {},
): Promise<BuildRow[]> {
  const open: BuildRow[] = [];
  const outcomes = new Map<bigint, Cancelled>();
  for (let found = builds; found.length > 0;) {
    const isNew = ({ id, build_state: state }: BuildRow): boolean =>
      !outcomes.has(id) && !isFinal(buildMachine, state as BuildState);
    const more = found.filter(isNew);
    const ids = more.map(({ id }) => id);
    for (const [id, outcome] of await cancel(context.db, context.trx, ids)) outcomes.set(id, outcome);
    open.push(...more);
    found = ids.some((id) => outcomes.get(id) === 'none') ? await reread() : [];
  }
  for (const build of open)
    if (outcomes.get(build.id) === 'dropped') await advanceBuild(context, build, 'cancelled', ending);
  return open.filter(({ id }) => outcomes.get(id) === 'none');
}

/** If a build got a job since it was read, the transaction reruns, because jobs are locked before requests. */
export async function cancelHeld(
  context: WriteContext,
  builds: readonly BuildRow[],
  ending: BuildEnding = {},
): Promise<void> {
  if (builds.length === 0) return;
  await holdAllForBuilds(context, builds);
  await holdGroups(context, builds.map(groupOf));
  const ids = builds.map(({ id }) => id);
  const jobs = context.trx
    .selectFrom('jobs')
    .select('id')
    .where('kind', 'in', ['run_suite', 'check_inputs'])
    .where('subject_id', 'in', ids);
  if (await jobs.executeTakeFirst()) runAgain();
  for (const build of builds) await advanceBuild(context, build, 'cancelled', ending);
}
