import { Readable } from 'node:stream';
import { insertUser } from '../../src/server/auth/users.ts';
import { beginLog } from '../../src/server/streams/logs.ts';
import type { Record_ } from './client.ts';
import { registerApplication } from './applications.ts';
import { addArtifact, addBuild, addCache, addCommit, addDelivery, addForge, addHookDelivery } from './rows.ts';
import type { Service } from './service.ts';
import { addShell } from './shells.ts';
import type { User } from './user.ts';
import { ci, seen } from './workflows.ts';

/** A project with one record of every kind, and the identifiers for the parameters of paths. */
export interface World {
  project: Record_;
  path(route: string): string;
}

const noSecrets = { password_hash: null, api_key_hash: null };

export async function buildWorld(service: Service, owner: User): Promise<World> {
  const { store } = service;
  const project = await owner.createProject({ public_badge: 'true' });
  const suite = await owner.createSuite(project);
  const cache = await addCache(store, { project, suite: await owner.createSuite(project) });
  const variable = await owner.createVariable(project, suite);
  const projectVariables = `/projects/${project.id}/environment_variables`;
  const projectVariable = (await owner.post(projectVariables, { name: 'OF_PROJECT', content: 'something' })).record;
  const dependency = await owner.createDependency();
  const { digest: result } = await store.blobs.put(Readable.from([Buffer.from('compiled')]));
  await store.db.transaction(async (trx) => {
    await trx.updateTable('dependencies').set({ result }).where('id', '=', dependency.id).execute();
  });
  await owner.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
  const rules = `/projects/${project.id}/suites/${suite.id}/rules`;
  const rule = (await owner.post(rules, { subject: 'commit.message', operator: 'contains', value: 'x' })).record;
  const strategy = await owner.createStrategy(project);
  const commit = await addCommit(store, project);
  const buildRequest = await owner.requestBuild(project);
  const build = await addBuild(store, project, { commit, buildRequest, suite });
  await store.db.transaction(async (trx) => {
    const log = store.ids.next();
    await beginLog(trx, log, project.id, { isComplete: true });
    const services = JSON.stringify([{ name: 'db', state: 'stopped', log: String(log) }]);
    await trx.updateTable('builds').set({ services }).where('id', '=', build.id).execute();
  });
  await seen(service, project, [ci]);
  const artifact = await addArtifact(store, build, 'dist/app.js');
  const deploys = `/projects/${project.id}/deploys`;
  const deploy = (await owner.post(deploys, { deploy_strategy_id: strategy.id, commit_id: commit.id })).record;
  const notification = await owner.createNotification(project);
  const delivery = await addDelivery(store, notification);
  const hook = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'generic' })).record;
  const hookDelivery = await addHookDelivery(store, hook);
  const statusTarget = await owner.createStatusTarget(project);
  const collaborator = await owner.invite(project, { email: `friend-of-${project.id}@example.org` });
  const guest = { email: `guest-of-${project.id}@example.org`, kind: 'user', secrets: noSecrets } as const;
  const guestId = await store.db.transaction((trx) => insertUser(trx, store.ids, guest));
  const schedule = (await owner.post(`/projects/${project.id}/schedules`, { cron: '0 0 1 1 *' })).record;
  const registry = await owner.createRegistry({ host: `registry-of-${project.id}.example.org` });
  const forge = await addForge(store, owner);
  const organisation = (await owner.post('/organisations', { name: `world-${project.id}` })).record;
  const shared = `/organisations/${organisation.id}/environment_variables`;
  const common = (await owner.post(shared, { name: 'COMMON', content: 'something' })).record;
  const companion = { email: `member-of-${project.id}@example.org`, role: 'viewer' };
  const member = (await owner.post(`/organisations/${organisation.id}/members`, companion)).record;
  const application = await registerApplication(service, owner);
  await application.token(owner, ['user']);
  const upload = (await owner.post(`/dependencies/${dependency.id}/uploads`, { size: 1n })).record;
  const token = (await owner.post('/tokens', { name: 'script', 'scopes[]': 'user' })).record;
  const ids: Record<string, bigint | string> = {
    service_name: 'db',
    organisation_id: organisation.id,
    organisation_name: String(organisation.name),
    member_id: member.id,
    project_id: project.id,
    suite_id: suite.id,
    rule_id: rule.id,
    environment_variable_id: variable.id,
    dependency_id: dependency.id,
    upload_id: upload.id,
    deploy_strategy_id: strategy.id,
    commit_id: commit.id,
    build_request_id: buildRequest.id,
    build_id: build.id,
    artifact_id: artifact.id,
    deploy_id: deploy.id,
    notification_id: notification.id,
    delivery_id: delivery.id,
    hook_id: hook.id,
    hook_delivery_id: hookDelivery.id,
    status_target_id: statusTarget.id,
    collaborator_id: collaborator.id,
    user_id: guestId,
    schedule_id: schedule.id,
    registry_id: registry.id,
    forge_id: forge.id,
    token_id: token.id,
    application_id: application.id,
    authorization_id: application.id,
    cache_id: cache.id,
    shell_id: 0n,
  };
  // No build passed that this one could be compared with, so another one has to be named.
  const path = (route: string): string =>
    route.replace(/\/log\/diff$/, `$&?with=${String(build.id)}`).replaceAll(/:(\w+)/g, (_, name: string) => {
      const isOfProject = name === 'environment_variable_id' && !route.includes(':suite_id');
      const isCommon = name === 'environment_variable_id' && route.includes(':organisation_id');
      const id = isCommon ? common.id : isOfProject ? projectVariable.id : ids[name];
      if (id === undefined) throw new Error(`this world has no ${name}`);
      return String(id);
    });
  ids.shell_id = (await addShell(store, { path }, owner.email)).id;
  return { project, path };
}
