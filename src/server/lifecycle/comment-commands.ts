import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, DeployStrategyRow } from '../db/schema.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import { holdWithFirst } from './apply-rollup.ts';
import { cancelRequest } from './cancel-requests.ts';
import { isOnRefs, openDeploy } from './deploys.ts';
import { settingsOf } from './file-suites.ts';
import type { CommentCommand } from './forge-deeds.ts';
import { isForeign } from './forks.ts';
import { isQueueFull } from './full-queue.ts';
import { approveRequest, buildsOf, type Owned } from './requests.ts';
import { rerunRequest, restartBuild } from './reruns.ts';
import { newestAttempts } from './rollup.ts';
import { buildRequestMachine, isFinal, type BuildRequestState } from './states.ts';
import type { WriteContext } from './write-context.ts';

/* Commands in comments do what the buttons do, to the newest request of the pull request. */

export interface Commanded {
  projectId: bigint;
  pull: bigint;
  command: CommentCommand;
  /** As the forge reports it now, perhaps only the first digits. Needed for `approve` and `deploy`. */
  head: string | undefined;
}

/** The reason why nothing was done, in plain words that nobody else wrote, or what was done, for the audit log if buttons are recorded there. */
export type Obeyed =
  | { why: string }
  | { action: 'build_request.approved' | 'deploy.started' | ''; subjectId: bigint; details: Record<string, string> };

type Project = Owned & { why: string };

/** Writes that the caller's transaction keeps or drops as a whole. */
export async function obey(context: WriteContext, asked: Commanded): Promise<Obeyed> {
  const { projectId, pull, command } = asked;
  const project = await findProject(context.trx, projectId, command);
  if (project.why !== '') return { why: project.why };
  const request = await newestOf(context.trx, projectId, pull);
  if (!request) return { why: 'No build request for this pull request exists.' };
  if (command.kind === 'cancel') return cancel(context, request);
  if (command.kind === 'approve') return approve(context, project, request, asked);
  if (command.kind === 'deploy') return deploy(context, project, request, asked);
  return command.name === '' ? retest(context, project, request) : retestSuite(context, project, request, command.name);
}

const done = ({ id }: BuildRequestRow): Obeyed => ({ action: '', subjectId: id, details: {} });

async function findProject(db: Queries, id: bigint, { kind }: CommentCommand): Promise<Project> {
  const {
    comment_commands: isOn,
    suspended,
    billing,
    ...project
  } = await db
    .selectFrom('projects')
    .innerJoin('users', 'users.id', 'projects.owner_id')
    .select(['projects.id', 'owner_id', 'config_file', 'build_twice', 'parameters', 'comment_commands'])
    .select('pull_request_builds')
    .select(['suspended', 'billing'])
    .where('projects.id', '=', id)
    .executeTakeFirstOrThrow();
  const isPaid = suspended === 0 && billing === 'ok';
  if (isOn === 0) return { ...project, why: 'Commands in comments are switched off.' };
  if (kind === 'cancel') return { ...project, why: '' };
  if (!isPaid) return { ...project, why: 'The account of the project’s owner is suspended or not paid for.' };
  const isFull = await isQueueFull(db, id);
  return { ...project, why: isFull ? 'The account of the project’s owner has too many waiting jobs.' : '' };
}

function newestOf(db: Queries, projectId: bigint, pull: bigint): Promise<BuildRequestRow | undefined> {
  const requests = db.selectFrom('build_requests').selectAll().where('project_id', '=', projectId);
  return requests.where('pull_request', '=', pull).orderBy('id', 'desc').limit(1).executeTakeFirst();
}

const isOver = ({ build_state: state }: BuildRequestRow): boolean =>
  isFinal(buildRequestMachine, state as BuildRequestState);

const underWay = 'The newest build request is still under way.';

async function cancel(context: WriteContext, request: BuildRequestRow): Promise<Obeyed> {
  if (isOver(request)) return { why: 'The newest build request is already over.' };
  await cancelRequest(context, request);
  return done(request);
}

async function retest(context: WriteContext, project: Owned, { id }: BuildRequestRow): Promise<Obeyed> {
  await holdWithFirst(context, id); // of two concurrent commands, the second finds the request begun
  const requests = context.trx.selectFrom('build_requests').selectAll().where('id', '=', id);
  const request = await requests.executeTakeFirstOrThrow();
  if (request.build_state === 'passed') return { why: 'All suites of the newest build request passed.' };
  const isBegun = await rerunRequest(context, project, request, { by: null, failedOnly: true });
  return isBegun ? done(request) : { why: underWay };
}

async function retestSuite(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  name: string,
): Promise<Obeyed> {
  const isNamed = ({ suite_name: suite, variant }: BuildRow): boolean =>
    suite === name || nameWithVariant(suite, variant) === name;
  const own = (await buildsOf(context, request)).filter(isNamed);
  const { joined_to_id: first } = request;
  const builds = own.length > 0 || first === null ? own : (await buildsOf(context, { id: first })).filter(isNamed);
  const [build, ...others] = newestAttempts(builds);
  if (!build) return { why: 'The newest build request has no suite of that name.' };
  if (!(await settingsOf(context.trx, build))) return { why: 'The suite was deleted.' };
  return (await restartBuild(context, project, build, { by: null, others })) ? done(request) : { why: underWay };
}

/** Why a SHA, or the head that the forge reports, is not the commit. Blank if both are. */
function whyOther(commit: string, { command: { sha }, head = '' }: Commanded): string {
  if (sha !== '' && !/^[0-9a-f]{40}$/.test(sha)) return 'Write the whole SHA, of 40 digits.';
  if (sha !== '' && sha !== commit) return 'The newest build request is of another commit than that SHA.';
  const isHead = /^[0-9a-f]{12,40}$/i.test(head) && commit.startsWith(head.toLowerCase());
  return isHead ? '' : 'The head of the pull request is not the commit of the newest build request.';
}

async function approve(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  asked: Commanded,
): Promise<Obeyed> {
  if (request.build_state !== buildRequestMachine.held)
    return { why: 'The newest build request waits for no approval.' };
  const why = whyOther(request.commit_ref, asked);
  if (why !== '') return { why };
  if (!(await approveRequest(context, project, request.id))) return { why: underWay };
  return { action: 'build_request.approved', subjectId: request.id, details: {} };
}

async function deploy(
  context: WriteContext,
  project: Owned,
  request: BuildRequestRow,
  asked: Commanded,
): Promise<Obeyed> {
  const { trx } = context;
  const strategy = await findStrategy(trx, project.id, asked.command.name);
  if (!strategy) return { why: 'The project has no deploy strategy of that name.' };
  const commits = trx.selectFrom('commits').select(['id', 'ref', 'branches', 'tags']);
  const known = commits.where('project_id', '=', project.id).where('merge_of', '=', '');
  const { commit_id: id, head_sha: head } = request;
  const commit = await (head === '' ? known.where('id', '=', id) : known.where('ref', '=', head)).executeTakeFirst();
  if (!commit && head !== '') return { why: 'The head was built only as a merge, which cannot be deployed.' };
  if (!commit) return { why: 'The commit of the newest build request was not fetched.' };
  const why = whyOther(commit.ref, asked);
  if (why !== '') return { why };
  if (request.from_fork === 1 || isForeign(commit))
    return { why: 'The commit comes from a fork. It can be deployed after the merge.' };
  if (!(await isOnRefs(strategy, commit))) return { why: 'The deploy strategy is limited to other refs.' };
  // Nobody else is known here. The owner cannot approve the owner's own deploy, so another user must.
  const made = await openDeploy(context, project, { strategy, commit, createdBy: project.owner_id });
  return { action: 'deploy.started', subjectId: made.id, details: { deploy_strategy_id_str: String(strategy.id) } };
}

function findStrategy(db: Queries, projectId: bigint, name: string): Promise<DeployStrategyRow | undefined> {
  const strategies = db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', projectId);
  return strategies.where('name', '=', name).limit(1).executeTakeFirst();
}
