import { sql, type SqlBool } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { prepared, preparedInsert } from '../db/prepared.ts';
import type { BuildRow, SuiteRow } from '../db/schema.ts';
import { cancel, enqueue, retag } from '../queue/queue.ts';
import { beginLogs, completeLog } from '../streams/logs.ts';
import { noteEnding } from './endings.ts';
import { checkAtEnd, recordEvent, rollUp } from './ledger.ts';
import { subjectTopic, type WriteContext } from './write-context.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { buildMachine, isFinal, statesBefore, type BuildState } from './states.ts';

/** How many attempts in a row may be lost through no fault of the code. */
export const mostTries = 3;

interface Ending {
  exit_status?: number | null;
  failure_reason?: string;
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

/**
 * The same, for a caller that holds the build's job and has read the build since: nobody else moves the build then. At
 * the end of the transaction it is checked that the stored state agreed; nothing waits for that here.
 */
export async function advanceHeldBuild(context: WriteContext, build: BuildRow, to: BuildState): Promise<boolean> {
  if (!statesBefore(buildMachine, to).includes(build.build_state as BuildState)) return false;
  checkAtEnd(context, isMoved(write(context, build, to, {}), build));
  await tell(context, build, to);
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
  return true;
}

async function isMoved(moving: Promise<Moved | undefined>, { id }: BuildRow): Promise<void> {
  if (!(await moving)) throw new Error(`build ${id} was moved by somebody who does not hold its job`);
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
  'build_request_id',
  'created_at',
  'started_at',
  'finished_at',
] as const;
type Moved = Pick<BuildRow, (typeof movedColumns)[number]>;

async function write(
  { trx }: WriteContext,
  { id }: Pick<BuildRow, 'id'>,
  to: BuildState,
  ending: Ending,
): Promise<Moved | undefined> {
  const { exit_status = null, failure_reason = '' } = ending;
  const [moved] = await moves[to](trx, { id, now: BigInt(Date.now()), exit_status, failure_reason });
  return moved;
}

/** Records the new state. With a final state the log is complete too. */
async function tell(context: WriteContext, build: Moved, state: BuildState): Promise<void> {
  if (isFinal(buildMachine, state)) {
    await completeLog(context.db, context.trx, build.id);
    noteEnding(context, { type: 'build', state, ...build });
  }
  recordEvent(context, { projectId: build.project_id, subjectId: build.id, type: 'build', state });
}

type Move = (
  trx: Transaction,
  values: { id: bigint; now: bigint } & Required<Ending>,
) => Promise<readonly Readonly<Moved>[]>;

const moves = Object.fromEntries(buildMachine.states.map((to) => [to, moveTo(to)])) as Record<BuildState, Move>;

/** The write that moves a build, guarded by the states that the build may leave. */
function moveTo(to: BuildState): Move {
  return prepared((db, value) => {
    const began = { started_at: value('now') };
    const ended = {
      finished_at: value('now'),
      exit_status: value('exit_status'),
      failure_reason: value('failure_reason'),
    };
    return db
      .updateTable('builds')
      .set({ build_state: sql.lit<string>(to), ...(isFinal(buildMachine, to) ? ended : began) })
      .where('id', '=', value('id'))
      .where(
        'build_state',
        'in',
        statesBefore(buildMachine, to).map((state) => sql.lit<string>(state)),
      )
      .returning(movedColumns);
  });
}

export interface BuildPlace {
  projectId: bigint;
  accountId: bigint;
  commitId: bigint;
  requestId: bigint;
}

interface LastAttempt {
  last: number | null;
  tags: string | null;
}

const findLastAttempt = prepared<{ commit: bigint; suite: bigint }, LastAttempt>((db, value) =>
  db.selectNoFrom((of) => [
    of
      .selectFrom('builds')
      .select('attempt')
      .where('commit_id', '=', value('commit'))
      .where('suite_id', '=', value('suite'))
      .orderBy('attempt', 'desc')
      .limit(sql.lit(1))
      .as('last'),
    of.selectFrom('suites').select('tags').where('id', '=', value('suite')).as('tags'),
  ]),
);
const insertBuilds = preparedInsert('builds');

/** A suite that is to be tried, which attempt at the commit was the last, and the tags that it needs. */
export interface Tried {
  suiteId: bigint;
  last: number;
  tags: string;
}

/** The last attempt of each suite. The commit is locked, so nobody else makes the same next attempt. */
export async function triedBefore({ trx }: WriteContext, commitId: bigint, suiteIds: bigint[]): Promise<Tried[]> {
  const tried = suiteIds.map(async (suiteId) => {
    const [last] = await findLastAttempt(trx, { commit: commitId, suite: suiteId });
    return { suiteId, last: last?.last ?? 0, tags: last?.tags ?? '' };
  });
  return Promise.all(tried);
}

/** Makes the next attempt of each suite and puts it into the queue. The caller does the roll-ups. */
export async function addBuilds(
  context: WriteContext,
  place: BuildPlace,
  suites: Tried[],
  tries = 0,
): Promise<BuildRow[]> {
  const { db, trx, ids } = context;
  if (suites.length === 0) return [];
  const { projectId, accountId, commitId, requestId } = place;
  const builds = suites.map(({ suiteId, last }): BuildRow => ({
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
    tests_passed: 0,
    tests_failed: 0,
    tests_skipped: 0,
  }));
  const buildIds = builds.map(({ id }) => id);
  await insertBuilds(trx, ...builds);
  await beginLogs(trx, buildIds, projectId);
  for (const subjectId of buildIds)
    recordEvent(context, { projectId, subjectId, type: 'build', state: buildMachine.initial });
  await db.announce(trx, subjectTopic(requestId)); // whoever follows the request follows its builds
  const jobs = builds.map(({ id: subjectId }, at) => {
    const { tags = '' } = suites[at] ?? {};
    return { kind: 'run_suite', subjectId, accountId, tries, tags };
  });
  await enqueue(db, trx, ids, ...jobs);
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
  const place = {
    projectId: build.project_id,
    accountId,
    commitId: build.commit_id,
    requestId: build.build_request_id,
  };
  if (tries < mostTries && (await suiteExists(context, build.suite_id))) {
    await holdForBuilds(context, build.build_request_id, build.commit_id);
    await addBuilds(context, place, await triedBefore(context, build.commit_id, [build.suite_id]), tries);
  }
  rollUp(context, { commit: build.commit_id, request: build.build_request_id });
}

async function suiteExists({ trx }: WriteContext, id: bigint): Promise<boolean> {
  const suite: Pick<SuiteRow, 'id'> | undefined = await trx
    .selectFrom('suites')
    .select('id')
    .where('id', '=', id)
    .executeTakeFirst();
  return suite !== undefined;
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

/** Ends builds that wait, and tells the runners of those that run; those that are over stay as they are. */
export async function cancelBuilds(context: WriteContext, builds: BuildRow[]): Promise<void> {
  const open = builds.filter(({ build_state: state }) => !isFinal(buildMachine, state as BuildState));
  const outcomes = await cancel(
    context.db,
    context.trx,
    open.map(({ id }) => id),
  );
  for (const build of open) if (outcomes.get(build.id) !== 'signalled') await advanceBuild(context, build, 'cancelled');
}
