import { createHash } from 'node:crypto';
import { runAgain } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, DeployRow, DeployStrategyRow } from '../db/schema.ts';
import { repositoryKey } from '../../shared/domain/git-address.ts';
import { areAmong } from '../../shared/domain/limited-refs.ts';
import { gateFields } from '../../shared/records/deploy.ts';
import { holdLane } from '../queue/lanes.ts';
import { cancel, enqueue } from '../queue/queue.ts';
import { addLine, beginLog } from '../streams/logs.ts';
import { mostTries } from './tries.ts';
import { writeDeployMove } from './deploy-moves.ts';
import { recordEvent } from './pending-effects.ts';
import { cancelRequest } from './cancel-requests.ts';
import { branchesIn } from './own-refs.ts';
import { openRequest, type Owned } from './requests.ts';
import type { WriteContext } from './write-context.ts';
import { deployMachine, isFinal, statesBefore, type DeployState } from './states.ts';

/**
 * A push waits for all earlier pushes to the same branch, in any project or strategy. A suite runs in its own build
 * request. Its builds wait for builds of the strategy's other deploys (chosen-suites.ts).
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
    state: (strategy.approval === 1 && deployMachine.held) || deployMachine.initial,
    created_by: createdBy,
    started_at: null,
    finished_at: null,
    clone_url: strategy.clone_url,
    local_branch: strategy.local_branch,
    remote_branch: strategy.remote_branch,
    suite_id: strategy.suite_id,
    approvers: strategy.approvers,
    approved_by: '',
  };
  // The lane and the commit are locked before the new row refers to the project. The deletion of a project uses the
  // same order.
  await holdItsLane(context, deploy);
  await db.locked(trx.selectFrom('commits').select('id').where('id', '=', commit.id), 'commits').execute();
  await trx.insertInto('deploys').values(deploy).execute();
  await beginLog(trx, deploy.id, project.id);
  recordEvent(context, { projectId: project.id, subjectId: deploy.id, type: 'deploy', state: deploy.state });
  if (!isHeld(deploy)) await beginWork(context, project, deploy, commit);
  return deploy;
}

/** Whether the strategy's `refs[]` allow the commit. */
export async function isOnRefs(
  { refs }: Pick<DeployStrategyRow, 'refs'>,
  { branches, tags }: Pick<CommitRow, 'branches' | 'tags'>,
): Promise<boolean> {
  const ofTags = (JSON.parse(tags) as string[]).map((tag) => `refs/tags/${tag}`);
  return areAmong([...branchesIn(branches), ...ofTags], gateFields.refs.fromColumn(refs));
}

async function holdItsLane({ db, trx }: WriteContext, deploy: DeployRow): Promise<void> {
  if (deploy.suite_id === null) await holdLane(db, trx, laneOf(deploy));
}

export function isHeld({ state }: Pick<DeployRow, 'state'>): boolean {
  return state === deployMachine.held;
}

async function beginWork(
  context: WriteContext,
  project: Owned,
  deploy: DeployRow,
  commit: Pick<CommitRow, 'ref'>,
): Promise<void> {
  const { db, trx, ids } = context;
  if (deploy.suite_id === null) {
    const job = { kind: 'push_deploy', subjectId: deploy.id, accountId: project.owner_id, lane: laneOf(deploy) };
    await enqueue(db, trx, ids, job);
    return;
  }
  const asked = { commitRef: commit.ref, createdBy: deploy.created_by, suites: [deploy.suite_id], deployId: deploy.id };
  await openRequest(context, project, asked);
}

async function lockHeld({ db, trx }: WriteContext, { id }: DeployRow): Promise<boolean> {
  const deploys = trx.selectFrom('deploys').select('state').where('id', '=', id);
  const now = await db.locked(deploys, 'deploys').executeTakeFirst();
  return now !== undefined && isHeld(now);
}

export async function approveDeploy(
  context: WriteContext,
  project: Owned,
  deploy: DeployRow,
  by: string,
): Promise<boolean> {
  const { trx } = context;
  await holdItsLane(context, deploy);
  const state = deployMachine.initial;
  const approved = trx
    .updateTable('deploys')
    .set({ state, approved_by: by })
    .where('id', '=', deploy.id)
    .where('state', 'in', statesBefore(deployMachine, state));
  if ((await approved.executeTakeFirst()).numUpdatedRows !== 1n) return false;
  recordEvent(context, { projectId: project.id, subjectId: deploy.id, type: 'deploy', state });
  const commits = trx.selectFrom('commits').select('ref').where('id', '=', deploy.commit_id);
  await beginWork(context, project, deploy, await commits.executeTakeFirstOrThrow());
  return true;
}

export async function rejectDeploy(context: WriteContext, deploy: DeployRow, by: string): Promise<boolean> {
  if (!(await lockHeld(context, deploy))) return false;
  await addLine(context.db, context.trx, deploy.id, `${by} rejected this deploy.`);
  return advanceDeploy(context, deploy, 'rejected');
}

function laneOf({ clone_url: url, remote_branch: branch }: DeployRow): string {
  return `deploy ${createHash('sha256')
    .update(`${repositoryKey(url)}\n${branch}`)
    .digest('hex')}`;
}

/** Also repeats a deploy whose runner was lost. False if nothing is left to do. */
export async function beginDeploy(context: WriteContext, deploy: DeployRow): Promise<boolean> {
  return deploy.state === 'deploying' || advanceDeploy(context, deploy, 'deploying');
}

export async function advanceDeploy(context: WriteContext, deploy: DeployRow, to: DeployState): Promise<boolean> {
  const event = await writeDeployMove(context, deploy, to);
  if (event) recordEvent(context, event);
  return event !== undefined;
}

/** A second push does no harm, so another runner tries, up to the limit. */
export async function loseDeploy(context: WriteContext, deploy: DeployRow, tries: number): Promise<{ retry: boolean }> {
  const retry = tries < mostTries;
  const outlook = retry
    ? `Another runner continues: attempt ${tries + 1} of ${mostTries}.`
    : `That was attempt ${tries} of ${mostTries}, so the deploy failed. Deploy again: commits that arrived are detected.`;
  await addLine(context.db, context.trx, deploy.id, `The runner was lost while it worked on this deploy. ${outlook}`);
  if (!retry) await advanceDeploy(context, deploy, 'failed');
  return { retry };
}

export async function cancelDeploy(context: WriteContext, deploy: DeployRow): Promise<void> {
  if (isFinal(deployMachine, deploy.state as DeployState)) return;
  if (isHeld(deploy)) {
    if (!(await lockHeld(context, deploy))) runAgain(); // it was approved since it was read
    await advanceDeploy(context, deploy, 'cancelled');
    return;
  }
  if (deploy.suite_id !== null) return cancelRequest(context, await requestOf(context, deploy));
  const outcomes = await cancel(context.db, context.trx, [deploy.id]);
  if (outcomes.get(deploy.id) !== 'signalled') await advanceDeploy(context, deploy, 'cancelled');
}

/** The request was created right after the deploy, so the search starts at the deploy's id. */
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
