import type { DeployRow } from '../db/schema.ts';
import { queueTopic } from '../queue/queue.ts';
import { addLine, completeLog } from '../streams/logs.ts';
import { newestAttempts, type BuildFact } from './rollup.ts';
import {
  buildRequestMachine,
  deployMachine,
  isFinal,
  statesBefore,
  type BuildRequestState,
  type DeployState,
} from './states.ts';
import type { LifecycleEvent, WriteContext } from './write-context.ts';

/** Moves the deploy only from a state that leads to `to`. Undefined if it did not move. */
export async function writeDeployMove(
  { db, trx }: WriteContext,
  { id, project_id: projectId }: Pick<DeployRow, 'id' | 'project_id'>,
  to: DeployState,
): Promise<LifecycleEvent | undefined> {
  const now = BigInt(Date.now());
  const { numUpdatedRows } = await trx
    .updateTable('deploys')
    .set({ state: to, ...(to === 'deploying' ? { started_at: now } : { finished_at: now }) })
    .where('id', '=', id)
    .where('state', 'in', statesBefore(deployMachine, to))
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return undefined;
  if (isFinal(deployMachine, to)) {
    await completeLog(db, trx, id);
    await db.announce(trx, queueTopic); // the next deploy to this branch waits for it
  }
  return { projectId, subjectId: id, type: 'deploy', state: to };
}

/** `builds` are the builds of the deploy's request. If it ended without a build of the suite, nothing was deployed. */
export async function followBuilds(
  context: WriteContext,
  id: bigint,
  request: BuildRequestState,
  builds: readonly BuildFact[],
): Promise<LifecycleEvent | undefined> {
  const { db, trx } = context;
  const deploys = trx.selectFrom('deploys').select(['id', 'project_id', 'suite_id']).where('id', '=', id);
  const deploy = await deploys.executeTakeFirstOrThrow();
  const newest = newestAttempts(builds.filter(({ suite_id: suite }) => suite === deploy.suite_id));
  const to = deployStateAfter(request, newest);
  if (to === 'failed' && newest.length === 0) await addLine(db, trx, id, request === 'errored' ? notBuilt : leftOut);
  return to && writeDeployMove(context, deploy, to);
}

const notBuilt = 'The suite did not run: the commit could not be fetched or built. Its build request shows why.';
const leftOut = 'The suite did not run: its rules, or the commit’s file, exclude this commit.';

function deployStateAfter(request: BuildRequestState, newest: readonly BuildFact[]): DeployState | undefined {
  if (!isFinal(buildRequestMachine, request))
    return newest.some(({ state }) => state === 'running') ? 'deploying' : undefined;
  if (newest.length > 0 && newest.every(({ state }) => state === 'passed')) return 'deployed';
  return request === 'cancelled' ? 'cancelled' : 'failed';
}
