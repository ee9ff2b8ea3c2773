import type { DeployRow } from '../db/schema.ts';
import { advanceDeploy, beginDeploy, loseDeploy } from '../lifecycle/deploys.ts';
import type { DeployState } from '../lifecycle/states.ts';
import type { Outcome } from '../../shared/protocol/index.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { sourceOf } from './sources.ts';

/** The response of the target repository decides the result. */
export const pushDeploy: JobHandler = {
  whenCut: 'A push was interrupted: check the remote branch to see whether it arrived.',

  async order(context, job) {
    const { trx, vault } = context;
    const deploy = await deployOf(context, job.subject_id);
    if (!deploy || !(await beginDeploy(context, deploy))) return undefined;
    const projects = trx.selectFrom('projects').selectAll().where('id', '=', deploy.project_id);
    const commits = trx.selectFrom('commits').select('ref').where('id', '=', deploy.commit_id);
    return {
      kind: 'push_deploy',
      source: await sourceOf(trx, vault, await projects.executeTakeFirstOrThrow()),
      sha: (await commits.executeTakeFirstOrThrow()).ref,
      localBranch: deploy.local_branch,
      remoteUrl: deploy.clone_url,
      remoteBranch: deploy.remote_branch,
      timeoutSeconds: context.limits.timeoutSeconds,
    };
  },

  outcomes: ['pushed', 'refused', 'cancelled'],

  async settle(context, job, outcome) {
    const deploy = await deployOf(context, job.subject_id);
    // A push that arrived is deployed, even if a user cancelled it at the last moment.
    if (deploy) await advanceDeploy(context, deploy, stateAfter(outcome));
  },

  async lose(context, job) {
    const deploy = await deployOf(context, job.subject_id);
    if (!deploy) return { retry: false };
    if (!job.cancelled) return loseDeploy(context, deploy, job.tries);
    await advanceDeploy(context, deploy, 'cancelled');
    return { retry: false };
  },
};

const endings: Partial<Record<Outcome['kind'], DeployState>> = {
  pushed: 'deployed',
  refused: 'failed',
  cut_short: 'failed',
  cancelled: 'cancelled',
};

function stateAfter({ kind }: Outcome): DeployState {
  const state = endings[kind];
  if (state === undefined) throw new Error(`a deploy does not end as ${kind}`);
  return state;
}

async function deployOf({ trx }: JobContext, id: bigint): Promise<DeployRow | undefined> {
  return trx.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirst();
}
