import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import type { Caller } from '../auth/callers.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { CommitRow, DeployRow, DeployStrategyRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { described, flag, identifier, required, type ValuesOf } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import { approveDeploy, cancelDeploy, isHeld, isOnRefs, openDeploy, rejectDeploy } from '../lifecycle/deploys.ts';
import { isForeign } from '../lifecycle/forks.ts';
import { deployMachine, isFinal, type DeployState } from '../lifecycle/states.ts';
import { createYield } from '../../shared/lib/event-loop.ts';
import { deployItemRecord, deployRecord, fetchedDeployRecord, gateFields } from '../../shared/records/deploy.ts';
import { listOf } from '../../shared/records/schema.ts';
import { writeContextOf, orNotFound, withIdString, type InProject } from './common.ts';
import { mayApprove } from './approvals.ts';
import { findStrategy } from './deploy-strategies.ts';
import { recordFirehose } from './firehoses.ts';
import { followedDeploy } from './followed.ts';
import { loggedInProject, logRoutes } from './logs.ts';
import { reasonsInVain } from './waiting.ts';

const mayWait = ({ state }: DeployRow): boolean => state === 'enqueued';

type Shown = DeployRow & { created_by_email: string; build_id: bigint | null };

function itemView({ id, state, created_by_email }: Shown) {
  return { ...withIdString('id', id), state, created_by: created_by_email };
}

function view(deploy: Shown) {
  return {
    ...itemView(deploy),
    ...withIdString('deploy_strategy_id', deploy.deploy_strategy_id),
    ...withIdString('commit_id', deploy.commit_id),
    ...withIdString('build_id', deploy.build_id),
    deploy_started_at: timestampOrNull(deploy.started_at),
    deploy_finished_at: timestampOrNull(deploy.finished_at),
    approvers: gateFields.approvers.fromColumn(deploy.approvers),
    approved_by: deploy.approved_by,
  };
}

function deploysOf(db: Queries, projectId: bigint) {
  return db
    .selectFrom('deploys')
    .innerJoin('users', 'users.id', 'deploys.created_by')
    .selectAll('deploys')
    .select('users.email as created_by_email')
    .select((of) =>
      of
        .selectFrom('builds')
        .select((build) => build.fn.max('builds.id').as('id'))
        .whereRef('builds.deploy_id', '=', 'deploys.id')
        .whereRef('builds.suite_id', '=', 'deploys.suite_id')
        .as('build_id'),
    )
    .where('deploys.project_id', '=', projectId);
}

async function findDeploy(db: Queries, projectId: bigint, id: bigint): Promise<Shown> {
  return orNotFound(await deploysOf(db, projectId).where('deploys.id', '=', id).executeTakeFirst());
}

async function loadDeploy(call: InProject<'deploy_id'>): Promise<{ deploy: Shown }> {
  return { deploy: await findDeploy(call.db, call.project.id, call.params.deploy_id) };
}

/** If the deploy waits for approval, refuses callers who may not approve it. */
async function loadJudged(call: InProject<'deploy_id'> & { caller: Caller }): Promise<{ deploy: Shown }> {
  const { deploy } = await loadDeploy(call);
  if (isHeld(deploy) && !mayApprove(deploy.approvers, call.caller, deploy.created_by))
    throw new ApiError('unauthorized');
  return { deploy };
}

type Deployed = Pick<CommitRow, 'id' | 'ref' | 'branches' | 'tags' | 'merge_of'>;

async function findCommit(db: Queries, projectId: bigint, id: bigint): Promise<Deployed | undefined> {
  const commits = db
    .selectFrom('commits')
    .select(['id', 'ref', 'branches', 'tags', 'merge_of'])
    .where('project_id', '=', projectId);
  return commits.where('id', '=', id).executeTakeFirst();
}

/** Commits per query. Each may have half a megabyte of branches. */
const atOnce = 20;

/** The branch's newest passed commit at the last fetch. Databases differ in JSON and case, so the query is inexact. */
async function newestPassed(db: Queries, projectId: bigint, branch: string): Promise<Deployed | undefined> {
  const inList = `%${JSON.stringify(branch).replaceAll(/[!%_]/g, '!$&')}%`;
  const passed = db
    .selectFrom('commits')
    .select(['id', 'ref', 'branches', 'tags', 'merge_of'])
    .where('project_id', '=', projectId)
    .where('build_state', '=', sql.lit('passed'))
    .where('merge_of', '=', '')
    .where(sql<boolean>`branches like ${inList} escape '!'`)
    .orderBy('id', 'desc')
    .limit(atOnce);
  const turn = createYield();
  for (let rows = await passed.execute(); rows.length > 0;) {
    for (const row of rows) {
      await turn();
      if ((JSON.parse(row.branches) as string[]).includes(branch)) return row;
    }
    rows = await passed.where('id', '<', rows.at(-1)?.id ?? 0n).execute();
  }
  return undefined;
}

/** True if an unfinished request may still bring a commit to deploy. */
async function isCommitComing(db: Queries, projectId: bigint): Promise<boolean> {
  const unfinished = db
    .selectFrom('build_requests')
    .select('id')
    .where('project_id', '=', projectId)
    .where('deploy_id', 'is', null)
    .where(sql<boolean>`build_state in ('enqueued', 'fetching', 'building')`);
  return (await unfinished.limit(1).executeTakeFirst()) !== undefined;
}

export const logged = loggedInProject({
  table: 'deploys',
  path: '/projects/:project_id/deploys/:deploy_id',
  param: 'deploy_id',
  scope: 'deploys',
  name: 'a deploy',
});

const fields = {
  deploy_strategy_id: required(identifier()),
  commit_id: identifier(),
  rollback: described(flag(), 'Deploy the commit of the strategy’s second-last successful deploy'),
};

/** The commit of the second newest successful deploy. */
async function deployedBefore(db: Queries, strategyId: bigint): Promise<Deployed | undefined> {
  return db
    .selectFrom('deploys')
    .innerJoin('commits', 'commits.id', 'deploys.commit_id')
    .select(['commits.id', 'commits.ref', 'commits.branches', 'commits.tags', 'commits.merge_of'])
    .where('deploys.deploy_strategy_id', '=', strategyId)
    .where('deploys.state', '=', sql.lit('deployed'))
    .orderBy('deploys.id', 'desc')
    .limit(1)
    .offset(1)
    .executeTakeFirst();
}

type DeployRequest = Partial<ValuesOf<typeof fields>>;

async function defaultBranch(db: Queries, projectId: bigint): Promise<string> {
  const projects = db.selectFrom('projects').select('default_branch').where('id', '=', projectId);
  return (await projects.executeTakeFirstOrThrow()).default_branch;
}

/** The named commit, the commit to roll back to, or the newest passed commit. */
async function meantCommit(
  db: Queries,
  strategy: DeployStrategyRow,
  { commit_id: named, rollback }: DeployRequest,
): Promise<Deployed | undefined> {
  if (named !== undefined) return findCommit(db, strategy.project_id, named);
  if (rollback) return deployedBefore(db, strategy.id);
  const branch = strategy.suite_id === null ? strategy.local_branch : await defaultBranch(db, strategy.project_id);
  return newestPassed(db, strategy.project_id, branch);
}

async function checkReferences(db: Queries, projectId: bigint, values: DeployRequest): Promise<FieldErrors> {
  const errors: FieldErrors = {};
  const { deploy_strategy_id: strategyId, commit_id: commitId, rollback } = values;
  const strategy = strategyId === undefined ? undefined : await findStrategy(db, projectId, strategyId);
  if (strategyId !== undefined && !strategy) errors.deploy_strategy_id = ['not_found'];
  if (commitId === undefined && !(strategy && 'commit_id' in values)) return errors;
  const commit = strategy ? await meantCommit(db, strategy, values) : await findCommit(db, projectId, commitId ?? 0n);
  const isComing = !commit && commitId === undefined && !rollback && (await isCommitComing(db, projectId));
  if (!commit) errors.commit_id = [isComing ? 'resource_temporary_unavailable' : 'not_found'];
  // A commit from a fork can be deployed only after a merge, and a merge that a runner made never. A rollback must not name a commit.
  else if (isForeign(commit) || commit.merge_of !== '' || (rollback && commitId !== undefined))
    errors.commit_id = ['invalid_format'];
  else if (strategy && !(await isOnRefs(strategy, commit))) errors.commit_id = ['invalid_format'];
  return errors;
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploys',
    access: 'viewer',
    scope: 'deploys',
    summary: 'List the deploys of a project',
    paged: true,
    answer: listOf(deployItemRecord),
    async handle(call) {
      const { db, project, page } = call;
      const rows = await onPage(deploysOf(db, project.id), 'deploys.id', page).execute();
      const reason = await reasonsInVain(call, { account: project.owner_id, rows, mayWait, builds: 'deploy_id' });
      return pageOf(
        page,
        rows.map((row) => ({ ...itemView(row), ...reason(row) })),
      );
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/deploys',
    access: 'developer',
    scope: 'deploys',
    startsWork: true,
    summary:
      'Deploy a commit; by default the newest one that passed on the branch of the strategy, and with rollback the ' +
      'one that was deployed before the last',
    body: fields,
    creates: 'work',
    answer: deployRecord,
    verify: ({ db, project }, values) => checkReferences(db, project.id, values),
    audit: {
      action: 'deploy.started',
      details: ({ input: { deploy_strategy_id: strategy, rollback } }) => ({
        deploy_strategy_id_str: String(strategy),
        ...(rollback && { rollback }),
      }),
    },
    async handle(call) {
      const { db, project, caller, input } = call;
      const strategy = orNotFound(await findStrategy(db, project.id, input.deploy_strategy_id), 'deploy_strategy_id');
      const commit = orNotFound(await meantCommit(db, strategy, input), 'commit_id');
      if (!(await isOnRefs(strategy, commit))) throw new ApiError('invalid_format', 'commit_id');
      const wanted = { strategy, commit, createdBy: caller.id };
      const deploy = await openDeploy(writeContextOf(call), project, wanted);
      return view(await findDeploy(db, project.id, deploy.id));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploys/:deploy_id',
    access: 'viewer',
    scope: 'deploys',
    summary: 'Fetch a deploy',

    answer: fetchedDeployRecord,
    async handle(call) {
      const { db, project, params } = call;
      const deploy = await findDeploy(db, project.id, params.deploy_id);
      const reason = await reasonsInVain(call, {
        account: project.owner_id,
        rows: [deploy],
        mayWait,
        builds: 'deploy_id',
      });
      return { ...view(deploy), ...reason(deploy) };
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/deploys/:deploy_id/cancel',
    access: 'developer',
    scope: 'deploys',
    summary: 'Cancel a deploy; a push that has arrived is not undone',
    answer: deployRecord,
    load: loadDeploy,
    audit: {
      action: 'deploy.cancelled',
      subject: ({ deploy: { id, state } }) =>
        isFinal(deployMachine, state as DeployState) ? undefined : { id, name: '' },
    },
    async handle(call) {
      const { db, project, deploy } = call;
      await cancelDeploy(writeContextOf(call), deploy);
      return view(await findDeploy(db, project.id, deploy.id));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/deploys/:deploy_id/approve',
    access: 'developer',
    scope: 'deploys',
    startsWork: true,
    summary: 'Approve a waiting deploy; only a user other than its creator may',
    answer: deployRecord,
    load: loadJudged,
    audit: { action: 'deploy.approved', subject: ({ deploy: { id } }) => ({ id, name: '' }) },
    async handle(call) {
      const { db, project, deploy, caller } = call;
      if (!(await approveDeploy(writeContextOf(call), project, deploy, caller.email)))
        throw new ApiError('resource_temporary_unavailable');
      return view(await findDeploy(db, project.id, deploy.id));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/deploys/:deploy_id/reject',
    access: 'developer',
    scope: 'deploys',
    summary: 'Reject a deploy that waits for approval; only its approvers may',
    answer: deployRecord,
    load: loadJudged,
    audit: { action: 'deploy.rejected', subject: ({ deploy: { id } }) => ({ id, name: '' }) },
    async handle(call) {
      const { db, project, deploy, caller } = call;
      if (!(await rejectDeploy(writeContextOf(call), deploy, caller.email)))
        throw new ApiError('resource_temporary_unavailable');
      return view(await findDeploy(db, project.id, deploy.id));
    },
  }),
  ...logRoutes(logged),
  recordFirehose(logged, followedDeploy),
];
