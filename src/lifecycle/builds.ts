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
  const now = BigInt(Date.now());
  const moment = to === 'running' ? { started_at: now } : isFinal(buildMachine, to) ? { finished_at: now } : {};
  const { numUpdatedRows } = await life.trx
    .updateTable('builds')
    .set({ build_state: to, ...ending, ...moment })
    .where('id', '=', build.id)
    .where('build_state', 'in', statesBefore(buildMachine, to))
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return false;
  if (isFinal(buildMachine, to)) await completeLog(life.db, life.trx, build.id);
  await happened(life, { projectId: build.project_id, subjectId: build.id, type: 'build', state: to });
  return true;
}

export interface BuildPlace {
  projectId: bigint;
  accountId: bigint;
  commitId: bigint;
  requestId: bigint;
}

/** Makes the next attempt at a suite and puts it into the queue. Roll-ups are left to the caller. */
export async function addBuild(life: Life, place: BuildPlace, suiteId: bigint, tries = 0): Promise<BuildRow> {
  const { trx, ids } = life;
  const last = await trx
    .selectFrom('builds')
    .select('attempt')
    .where('commit_id', '=', place.commitId)
    .where('suite_id', '=', suiteId)
    .orderBy('attempt', 'desc')
    .limit(1)
    .executeTakeFirst();
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
  await trx.insertInto('builds').values(build).execute();
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
