import { sql } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { prepared, preparedInsert, preparedWrite } from '../db/prepared.ts';
import type { BuildRow, SuiteRow } from '../db/schema.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { beginLog, completeLog } from '../streams/logs.ts';
import { happened, subjectTopic, type Life } from './life.ts';
import { rollUp } from './settle.ts';
import { buildMachine, isFinal, statesBefore, type BuildState } from './states.ts';

/** Every attempt that was lost through no fault of the code counts towards this. */
export const mostTries = 3;

interface Ending {
  exit_status?: number | null;
  failure_reason?: string;
}

/** Moves a build on, if it stands where that is possible; answers whether it did. */
export async function advanceBuild(life: Life, build: BuildRow, to: BuildState, ending: Ending = {}): Promise<boolean> {
  if (!(await moveBuild(life, build, to, ending))) return false;
  await rollUp(life, build.commit_id, [build.build_request_id]);
  return true;
}

async function moveBuild(life: Life, build: BuildRow, to: BuildState, ending: Ending): Promise<boolean> {
  const { exit_status = null, failure_reason = '' } = ending;
  const values = { id: build.id, now: BigInt(Date.now()), exit_status, failure_reason };
  if ((await moves[to](life.trx, values)) !== 1n) return false;
  if (isFinal(buildMachine, to)) await completeLog(life.db, life.trx, build.id);
  await happened(life, { projectId: build.project_id, subjectId: build.id, type: 'build', state: to });
  return true;
}

type Move = (trx: Transaction, values: { id: bigint; now: bigint } & Required<Ending>) => Promise<bigint>;

const moves = Object.fromEntries(buildMachine.states.map((to) => [to, moveTo(to)])) as Record<BuildState, Move>;

/** The write that moves a build, guarded by the states that it may leave. */
function moveTo(to: BuildState): Move {
  return preparedWrite((db, value) => {
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
      );
  });
}

export interface BuildPlace {
  projectId: bigint;
  accountId: bigint;
  commitId: bigint;
  requestId: bigint;
}

const findLastAttempt = prepared<{ commit: bigint; suite: bigint }, { attempt: number }>((db, value) =>
  db
    .selectFrom('builds')
    .select('attempt')
    .where('commit_id', '=', value('commit'))
    .where('suite_id', '=', value('suite'))
    .orderBy('attempt', 'desc')
    .limit(sql.lit(1)),
);
const insertBuild = preparedInsert('builds');

/** Makes the next attempt at a suite and puts it into the queue. Roll-ups are left to the caller. */
export async function addBuild(life: Life, place: BuildPlace, suiteId: bigint, tries = 0): Promise<BuildRow> {
  const { trx, ids } = life;
  const [last] = await findLastAttempt(trx, { commit: place.commitId, suite: suiteId });
  const build: BuildRow = {
    id: ids.next(),
    project_id: place.projectId,
    build_request_id: place.requestId,
    commit_id: place.commitId,
    suite_id: suiteId,
    build_state: buildMachine.initial,
    attempt: (last?.attempt ?? 0) + 1,
    exit_status: null,
    failure_reason: '',
    created_at: BigInt(Date.now()),
    started_at: null,
    finished_at: null,
  };
  await insertBuild(trx, build);
  await beginLog(trx, build.id, place.projectId);
  await happened(life, { projectId: place.projectId, subjectId: build.id, type: 'build', state: build.build_state });
  await life.db.announce(trx, subjectTopic(place.requestId)); // whoever follows the request follows its builds
  await enqueue(life.db, trx, ids, { kind: 'run_suite', subjectId: build.id, accountId: place.accountId, tries });
  return build;
}

/** The runner is gone and took the build with it: the next attempt follows in the same breath. */
export async function loseBuild(life: Life, build: BuildRow, accountId: bigint, tries: number): Promise<void> {
  if (!(await moveBuild(life, build, 'errored', { failure_reason: 'runner_lost' }))) return;
  const place = {
    projectId: build.project_id,
    accountId,
    commitId: build.commit_id,
    requestId: build.build_request_id,
  };
  if (tries < mostTries && (await suiteExists(life, build.suite_id)))
    await addBuild(life, place, build.suite_id, tries);
  await rollUp(life, build.commit_id, [build.build_request_id]);
}

async function suiteExists({ trx }: Life, id: bigint): Promise<boolean> {
  const suite: Pick<SuiteRow, 'id'> | undefined = await trx
    .selectFrom('suites')
    .select('id')
    .where('id', '=', id)
    .executeTakeFirst();
  return suite !== undefined;
}

/** Ends a build that waits, and tells the runner of one that runs; one that is over stays as it is. */
export async function cancelBuild(life: Life, build: BuildRow): Promise<void> {
  if (isFinal(buildMachine, build.build_state as BuildState)) return;
  if ((await cancel(life.db, life.trx, build.id)) !== 'told') await advanceBuild(life, build, 'cancelled');
}
