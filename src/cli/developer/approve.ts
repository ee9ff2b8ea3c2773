import { Failure } from '../client/failure.ts';
import type { Build, BuildRequest, Deploy, Project } from '../client/operations.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { findBuild } from './named-build.ts';
import { findRequest, ifThere } from './project.ts';
import { words } from './text.ts';

const waiting = 'waiting_for_approval';

/**
 * By default it approves what waits in the newest request of the folder's branch, or else the project's waiting deploy.
 */
export async function run(call: Call, named?: string): Promise<void> {
  const project = await call.project();
  const deploy = named === undefined ? undefined : await deployCalled(call, project, named);
  if (deploy) return approveDeploy(call, project, deploy);
  const request = named === undefined ? await findRequest(call, project) : await requestCalled(call, project, named);
  if (!request) return approveBuild(call, project, await findBuild(call, project, named ?? ''));
  const builds = (await buildsOf(call, project, request)).filter((build) => build.build_state === waiting);
  const [first, ...others] = builds;
  if (first && others.length === 0) return approveBuild(call, project, first);
  if (first) throw several(words`builds of ${request.commit_ref}`, builds.map(nameOf), 'BUILD');
  const isOpen = named === undefined && request.build_state !== waiting;
  const found = isOpen ? await waitingDeploy(call, project) : undefined;
  return found ? approveDeploy(call, project, found) : approveRequest(call, project, request);
}

const nameOf = ({ suite_name: suite, variant }: Build): string => nameWithVariant(suite, variant);

function several(what: string, names: readonly string[], argument: string): WrongUse {
  return new WrongUse(
    words`Several ${what} wait for approval: ${names.join(', ')}. Choose one: headrace approve ${argument}`,
  );
}

async function requestCalled({ client }: Call, project: Project, named: string): Promise<BuildRequest | undefined> {
  if (!/^\d+$/.test(named)) return undefined;
  return ifThere(client.call('request', { project_id: project.id_str, build_request_id: named }));
}

async function deployCalled({ client }: Call, project: Project, named: string): Promise<Deploy | undefined> {
  if (!/^\d+$/.test(named)) return undefined;
  return ifThere(client.call('oneDeploy', { project_id: project.id_str, deploy_id: named }));
}

async function waitingDeploy(call: Call, project: Project): Promise<Deploy | undefined> {
  const deploys = await call.client.call('deploys', { project_id: project.id_str }, { limit: '1000' });
  const ids = deploys.filter(({ state }) => state === waiting).map(({ id_str: id }) => id);
  const [id, ...others] = ids;
  if (others.length > 0) throw several(words`deploys of ${project.name}`, ids, 'DEPLOY');
  return id === undefined ? undefined : deployCalled(call, project, id);
}

async function buildsOf({ client }: Call, project: Project, { commit_id_str: commit }: BuildRequest) {
  if (commit === '') return [];
  const params = { project_id: project.id_str, commit_id: commit };
  return client.call('buildsOfCommit', params, { limit: '1000' });
}

async function approveBuild({ client, screen }: Call, project: Project, build: Build): Promise<void> {
  if (build.build_state !== waiting) throw isNotWaiting(nameOf(build), build.build_state);
  const approved = await client.call('approveBuild', { project_id: project.id_str, build_id: build.id_str });
  if (screen.isJson) return screen.json(approved);
  screen.print(words`${nameOf(build)} is approved. Follow it with: headrace logs ${build.id_str} --follow`);
}

async function approveRequest({ client, screen }: Call, project: Project, request: BuildRequest): Promise<void> {
  const { id_str: id, commit_ref: ref, build_state: state } = request;
  if (state !== waiting) throw isNotWaiting(words`request ${id} of ${ref}`, state);
  const approved = await client.call('approveRequest', { project_id: project.id_str, build_request_id: id });
  if (screen.isJson) return screen.json(approved);
  screen.print(words`Request ${id} of ${ref} is approved. Follow it with: headrace watch ${id}`);
}

async function approveDeploy({ client, screen }: Call, project: Project, deploy: Deploy): Promise<void> {
  const { id_str: id, deploy_strategy_id_str: strategyId, state } = deploy;
  if (state !== waiting) throw isNotWaiting(words`deploy ${id}`, state);
  const inProject = { project_id: project.id_str };
  const approved = await client.call('approveDeploy', { ...inProject, deploy_id: id }).catch((error: unknown) => {
    // A user who reads the deploy has the scope, so a refusal is about the user.
    throw error instanceof Failure && error.fields.includes('generic') ? mayNot(deploy) : error;
  });
  if (screen.isJson) return screen.json(approved);
  const strategies = await client.call('strategies', inProject);
  const name = strategies.find((one) => one.id_str === strategyId)?.name ?? strategyId;
  screen.print(
    words`Deploy ${id} to ${name} is approved. See ${client.url}/ui/projects/${project.id_str}/deploys/${id}`,
  );
}

function mayNot({ id_str: id, created_by: by, approvers }: Deploy): WrongUse {
  const others = approvers.join(' or ') || 'another user of the project';
  return new WrongUse(words`You may not approve deploy ${id}. ${by} requested it, and ${others} must approve it.`);
}

function isNotWaiting(what: string, state: string): WrongUse {
  return new WrongUse(words`${what} does not wait for approval: it is ${state}.`);
}
