import { createHash } from 'node:crypto';
import type { BuildRequestRow, CommitRow, DeployRow, DeployStrategyRow } from '../db/schema.ts';
import { repositoryKey } from '../domain/git-address.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { addLine, beginLog } from '../streams/logs.ts';
import { mostTries } from './builds.ts';
import { writeDeployMove } from './deploy-moves.ts';
import { recordEvent } from './pending-effects.ts';
import { cancelRequest, openRequest, type Owned } from './requests.ts';
import type { WriteContext } from './write-context.ts';
import { deployMachine, isFinal, type DeployState } from './states.ts';

/**
 * A push waits behind all others to the same branch, whatever their project or strategy. A suite is run by a build
 * request of its own, whose builds wait behind those of the strategy's other deploys (chosen-suites.ts).
 */
export async function openDeploy(
  context: WriteContext,
  project: Owned,
  {
    strategy,
    commit,
    createdBy,
  }: { strategy: DeployStrategyRow; commit: Pick<CommitRow, 'id' | 'ref'>; createdBy: bigint },
): Promise<DeployRow> {
  const { db, trx, ids } = context;
  const deploy: DeployRow = {
    id: ids.next(),
    project_id: project.id,
    deploy_strategy_id: strategy.id,
    commit_id: commit.id,
    state: deployMachine.initial,
    created_by: createdBy,
    started_at: null,
    finished_at: null,
    clone_url: strategy.clone_url,
    local_branch: strategy.local_branch,
    remote_branch: strategy.remote_branch,
    suite_id: strategy.suite_id,
  };
  await trx.insertInto('deploys').values(deploy).execute();
  await beginLog(trx, deploy.id, project.id);
  recordEvent(context, { projectId: project.id, subjectId: deploy.id, type: 'deploy', state: deployMachine.initial });
  if (strategy.suite_id !== null) {
    const asked = { commitRef: commit.ref, createdBy, suites: [strategy.suite_id], deployId: deploy.id };
    await openRequest(context, project, asked);
    return deploy;
  }
  const job = { kind: 'push_deploy', subjectId: deploy.id, accountId: project.owner_id, lane: laneOf(deploy) };
  await enqueue(db, trx, ids, job);
  return deploy;
}

function laneOf({ clone_url: url, remote_branch: branch }: DeployRow): string {
  return `deploy ${createHash('sha256')
    .update(`${repositoryKey(url)}\n${branch}`)
    .digest('hex')}`;
}

/** A runner begins the deploy, or repeats it after another runner was lost; false when nothing is left to do. */
export async function beginDeploy(context: WriteContext, deploy: DeployRow): Promise<boolean> {
  return deploy.state === 'deploying' || advanceDeploy(context, deploy, 'deploying');
}

/** Moves a deploy to another state, if its present state allows that. Returns whether it moved. */
export async function advanceDeploy(context: WriteContext, deploy: DeployRow, to: DeployState): Promise<boolean> {
  const event = await writeDeployMove(context, deploy, to);
  if (event) recordEvent(context, event);
  return event !== undefined;
}

/** The runner is gone or could not go on. A second push does no harm, so another runner tries, a few times at most. */
export async function loseDeploy(context: WriteContext, deploy: DeployRow, tries: number): Promise<{ retry: boolean }> {
  const retry = tries < mostTries;
  const outlook = retry
    ? `Another one goes on with it: try ${tries + 1} of ${mostTries}.`
    : `That was try ${tries} of ${mostTries}, so it has failed. Deploy again: what has arrived already is found.`;
  await addLine(context.db, context.trx, deploy.id, `The runner was lost while it worked on this deploy. ${outlook}`);
  if (!retry) await advanceDeploy(context, deploy, 'failed');
  return { retry };
}

/** Ends a deploy that waits, and tells the runner of a running one to stop. A finished deploy stays as it is. */
export async function cancelDeploy(context: WriteContext, deploy: DeployRow): Promise<void> {
  if (isFinal(deployMachine, deploy.state as DeployState)) return;
  if (deploy.suite_id !== null) return cancelRequest(context, await requestOf(context, deploy));
  const outcomes = await cancel(context.db, context.trx, [deploy.id]);
  if (outcomes.get(deploy.id) !== 'signalled') await advanceDeploy(context, deploy, 'cancelled');
}

/** The build request of a deploy. It was made right after the deploy, so the search begins there. */
async function requestOf({ trx }: WriteContext, { id, project_id: project }: DeployRow): Promise<BuildRequestRow> {
  return trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', project)
    .where('id', '>', id)
    .where('deploy_id', '=', id)
    .orderBy('id')
    .limit(1)
    .executeTakeFirstOrThrow();
}
