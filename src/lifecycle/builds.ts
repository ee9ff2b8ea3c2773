import { sql, type SqlBool } from 'kysely';
import { insertRows } from '../db/insert.ts';
import type { BuildRow } from '../db/schema.ts';
import { cancel, enqueue, retag, type Cancelled } from '../queue/queue.ts';
import { addLine, beginLogs, completeLog } from '../streams/logs.ts';
import { noteEnding } from './endings.ts';
import { recordEvent, rollUp } from './pending-effects.ts';
import { tooSlow, type Rule } from './rules.ts';
import type { StoredStep } from '../views/build-steps.ts';
import { projectTopic, subjectTopic, type WriteContext } from './write-context.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { buildMachine, isFinal, statesBefore, type BuildState } from './states.ts';

/** How many attempts in a row may be lost through no fault of the code. */
export const mostTries = 3;

interface Ending {
  exit_status?: number | null;
  failure_reason?: string;
  /** The part of the log that its commands wrote. */
  output?: { from: number; to: number } | undefined;
  steps?: readonly StoredStep[] | undefined;
}

/** Moves a build to another state, if its present state allows that. Answers whether it moved. */
export async function advanceBuild(
  context: WriteContext,
  build: Pick<BuildRow, 'id'>,
  to: BuildState,
  ending: Ending = {},
): Promise<boolean> {
  const moved = await moveBuild(context, build, to, ending);
  if (moved) rollUp(context, { commit: moved.commit_id, request: moved.build_request_id });
  return moved !== undefined;
}

async function moveBuild(
  context: WriteContext,
  build: Pick<BuildRow, 'id'>,
  to: BuildState,
  ending: Ending,
): Promise<Moved | undefined> {
  const moved = await write(context, build, to, ending);
  if (moved) await tell(context, moved, to);
  return moved;
}

const movedColumns = [
  'id',
  'project_id',
  'commit_id',
  'suite_id',
  'variant',
  'build_request_id',
  'retry',
  'retries_left',
  'created_at',
  'started_at',
  'finished_at',
] as const;
type Moved = Pick<BuildRow, (typeof movedColumns)[number]>;

/** Guarded by the states that the build may leave. */
async function write(
  { trx }: WriteContext,
  { id }: Pick<BuildRow, 'id'>,
  to: BuildState,
  { exit_status = null, failure_reason = '', output, steps }: Ending,
): Promise<Moved | undefined> {
  const now = BigInt(Date.now());
  const part = { output_from: output ? BigInt(output.from) : null, output_to: output ? BigInt(output.to) : null };
  const told = steps && { steps: JSON.stringify(steps) };
  const ended = { finished_at: now, exit_status, failure_reason, ...part, ...told };
  return trx
    .updateTable('builds')
    .set({ build_state: to, ...(isFinal(buildMachine, to) ? ended : { started_at: now }) })
    .where('id', '=', id)
    .where('build_state', 'in', statesBefore(buildMachine, to))
    .returning(movedColumns)
    .executeTakeFirst();
}

/** The steps of a suite, before its build has begun; blank for one with a command. */
export function waitingSteps(steps: string): string {
  if (steps === '[]') return '';
  const named = (JSON.parse(steps) as StoredStep[]).map(({ name }): StoredStep => ({ name, state: 'waiting' }));
  return JSON.stringify(named);
}

/** How far the steps of a running build are. Each time all of them are told, so it does not matter if one was missed. */
export async function noteSteps({ db, trx }: WriteContext, id: bigint, steps: readonly StoredStep[]): Promise<void> {
  const build = await trx
    .updateTable('builds')
    .set({ steps: JSON.stringify(steps) })
    .where('id', '=', id)
    .where('build_state', '=', 'running')
    .returning(['project_id', 'build_request_id'])
    .executeTakeFirst();
  if (!build) return;
  for (const topic of [projectTopic(build.project_id), subjectTopic(build.build_request_id), subjectTopic(id)])
    await db.announce(trx, topic);
}

/** Records the new state. With a final state the log is complete too. */
async function tell(context: WriteContext, build: Moved, state: BuildState): Promise<void> {
  if (isFinal(buildMachine, state)) {
    await completeLog(context.db, context.trx, build.id);
    noteEnding(context, { type: 'build', state, ...build });
  }
  recordEvent(context, { projectId: build.project_id, subjectId: build.id, type: 'build', state });
}

export interface BuildPlace {
  projectId: bigint;
  accountId: bigint;
  commitId: bigint;
  requestId: bigint;
}

/** What is tried: attempts at the same suite and variant follow each other. */
export type Subject = Pick<BuildRow, 'suite_id' | 'variant'>;

/** A suite and variant that is to be tried, and its last attempt at the commit. */
export interface Tried {
  suiteId: bigint;
  variant: string;
  last: number;
  /** The series to which the next attempt belongs; undefined where the suite is started anew. */
  series?: bigint;
  isDeleted?: boolean;
  /** From here on, the settings of the suite. */
  steps: string;
  tags: string;
  allowFailure: number;
  retries: number;
  /** The rule that took too long to judge: nothing is run then, and the build says so. */
  slow?: Rule;
}

/** The last attempt at each. The commit is locked, so nobody else makes the same next attempt. */
export async function triedBefore({ trx }: WriteContext, commitId: bigint, subjects: Subject[]): Promise<Tried[]> {
  const tried: Tried[] = [];
  for (const { suite_id: suiteId, variant } of subjects) {
    const { attempt, series, steps, tags, allow_failure, retries } = await trx
      .selectFrom('builds')
      .leftJoin('suites', 'suites.id', 'builds.suite_id')
      .select([
        'builds.attempt',
        'builds.series',
        'suites.steps',
        'suites.tags',
        'suites.allow_failure',
        'suites.retries',
      ])
      .where('builds.commit_id', '=', commitId)
      .where('builds.suite_id', '=', suiteId)
      .where('builds.variant', '=', variant)
      .orderBy('builds.attempt', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow();
    tried.push({
      suiteId,
      variant,
      last: attempt,
      series,
      isDeleted: tags === null,
      steps: steps ?? '[]',
      tags: tags ?? '',
      allowFailure: allow_failure ?? 0,
      retries: retries ?? 0,
    });
  }
  return tried;
}

/** How an attempt goes on with the work of the last one. */
interface Continued {
  /** How often a runner was lost with it. */
  tries?: number;
  retry?: number;
  retriesLeft?: number;
}

/** Makes the next attempt at each and puts it into the queue. The caller does the roll-ups. */
export async function addBuilds(
  context: WriteContext,
  place: BuildPlace,
  suites: Tried[],
  { tries = 0, retry = 0, retriesLeft }: Continued = {},
): Promise<BuildRow[]> {
  const { db, trx, ids } = context;
  if (suites.length === 0) return [];
  const { projectId, accountId, commitId, requestId } = place;
  const newSeries = ids.next();
  const builds = suites.map(
    ({ suiteId, variant, last, series = newSeries, steps, allowFailure, retries }): BuildRow => ({
      id: ids.next(),
      project_id: projectId,
      build_request_id: requestId,
      commit_id: commitId,
      suite_id: suiteId,
      build_state: buildMachine.initial,
      attempt: last + 1,
      exit_status: null,
      failure_reason: '',
      created_at: BigInt(Date.now()),
      started_at: null,
      finished_at: null,
      variant,
      allow_failure: allowFailure,
      retry,
      retries_left: retriesLeft ?? retries,
      series,
      tests_passed: 0,
      tests_failed: 0,
      tests_skipped: 0,
      uploads: '',
      output_from: null,
      output_to: null,
      steps: waitingSteps(steps),
    }),
  );
  const buildIds = builds.map(({ id }) => id);
  await insertRows(trx, 'builds', builds);
  await beginLogs(trx, buildIds, projectId);
  for (const subjectId of buildIds)
    recordEvent(context, { projectId, subjectId, type: 'build', state: buildMachine.initial });
  await db.announce(trx, subjectTopic(requestId)); // whoever follows the request follows its builds
  const jobs = builds.flatMap(({ id: subjectId }, at) => {
    const { tags = '', slow } = suites[at] ?? {};
    return slow ? [] : [{ kind: 'run_suite', subjectId, accountId, tries, tags }];
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

/** The runner of the build is gone. The build ends, and its next attempt is made in the same transaction. */
export async function loseBuild(
  context: WriteContext,
  build: BuildRow,
  accountId: bigint,
  tries: number,
): Promise<void> {
  if (!(await moveBuild(context, build, 'errored', { failure_reason: 'runner_lost' }))) return;
  const { retry, retries_left: retriesLeft } = build;
  if (tries < mostTries) await continueBuild(context, build, accountId, { tries, retry, retriesLeft });
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
}

/**
 * The command of a build has ended. Where it failed and may be retried, the next attempt is made in the same transaction:
 * so its commit and its request have not failed yet. What was cancelled is not retried.
 */
export async function endBuild(
  context: WriteContext,
  { id, accountId, isCancelled }: { id: bigint; accountId: bigint; isCancelled: boolean },
  state: BuildState,
  ending: Ending,
): Promise<void> {
  const build = await moveBuild(context, { id }, state, ending);
  if (!build) return;
  const isFailed = state === 'failed' || state === 'timed_out';
  const { retry, retries_left: left } = build;
  if (isFailed && left > 0 && !isCancelled)
    await continueBuild(context, build, accountId, { retry: retry + 1, retriesLeft: left - 1 });
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
}

/** Makes the next attempt after a build that is over, unless its suite was deleted. */
async function continueBuild(
  context: WriteContext,
  build: Moved,
  accountId: bigint,
  continued: Continued,
): Promise<void> {
  const { project_id: projectId, commit_id: commitId, build_request_id: requestId } = build;
  await holdForBuilds(context, requestId, commitId);
  const tried = await triedBefore(context, commitId, [build]);
  const next = tried.filter(({ isDeleted }) => !isDeleted);
  await addBuilds(context, { projectId, accountId, commitId, requestId }, next, continued);
}

/** The suite needs other tags now: so do its builds that wait. Its account's waiting jobs are few compared to builds. */
export async function retagBuilds(
  { db, trx }: WriteContext,
  { accountId, suiteId, tags }: { accountId: bigint; suiteId: bigint; tags: string },
): Promise<void> {
  const which = sql<SqlBool>`exists (
    select 1 from builds where builds.id = jobs.subject_id and builds.suite_id = ${suiteId}
  )`;
  await retag(db, trx, { accountId, which, tags });
}

/**
 * Ends builds that wait, and tells the runners of those that run; those that are over stay as they are. One that ended
 * since it was read may be followed by another attempt: `reread` finds it, before any build is locked.
 */
export async function cancelBuilds(
  context: WriteContext,
  builds: BuildRow[],
  reread: () => Promise<BuildRow[]> = async () => [],
): Promise<void> {
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
  for (const build of open) if (outcomes.get(build.id) !== 'signalled') await advanceBuild(context, build, 'cancelled');
}
