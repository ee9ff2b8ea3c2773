import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { routes } from '../../src/server/resources/index.ts';
import { failAndKeep } from '../support/shells.ts';
import { registerApplication } from '../support/applications.ts';
import { allEntries, AuditWatch } from '../support/audit.ts';
import { basic, type Answer } from '../support/client.ts';
import { assertRefused } from '../support/expect.ts';
import { FakeForge, forgeToken } from '../support/fake-forge.ts';
import { setDependencyState } from '../support/rows.ts';
import { describeServiceOnOne } from '../support/service.ts';
import { archiveOf } from '../support/software.ts';
import { fromFork, trigger } from '../support/triggered.ts';
import { freshName, type User } from '../support/user.ts';
import { buildWorld, type World } from '../support/world.ts';

type Route = (typeof routes)[number];
type Form = Record<string, string>;

const changing = routes.filter(({ method }) => method !== 'GET');
const callOf = ({ method, path }: Route): string => `${method} ${path.replaceAll(/:\w+/g, 'ID')}`;

/** They begin, repeat and stop work that says itself who asked for it, and change nothing that anybody relies on. */
const leaveNothing = [
  'POST /projects/ID/build_requests',
  'POST /projects/ID/build_requests/ID/cancel',
  'POST /projects/ID/build_requests/ID/rerun',
  'POST /projects/ID/build_requests/ID/again',
  'POST /projects/ID/builds/ID/cancel',
  'POST /projects/ID/builds/ID/restart',
  'POST /projects/ID/notifications/ID/deliveries/ID/redeliver',
  'POST /projects/ID/notifications/ID/try_now',
  'POST /projects/ID/status_targets/ID/try_now',
  'POST /projects/ID/hooks/ID/deliveries/ID/replay',
  'POST /dependencies/ID/uploads', // what is taken in the end is written down
  'DELETE /dependencies/ID/uploads/ID',
  'POST /projects/ID/suites/ID/quiet',
  'POST /runners/look',
  'PUT /account/news',
  'POST /projects/config', // the routes that these two call write theirs
  'PUT /projects/ID/config',
  'POST /projects/ID/import',
];

describe('every route that changes something', () => {
  test('says what is written down of it, or stands on the list of those of which nothing is', () => {
    const silent = changing.filter(({ audit }) => audit === 'nothing').map(callOf);
    assert.deepEqual(silent.toSorted(), leaveNothing.toSorted());
    for (const { audit, path } of changing) assert.ok(audit, path);
  });
});

const secrets = {
  content: 'content-of-a-variable-kingfisher',
  second: 'second-content-of-it-bittern',
  command: 'curl -H "token: in-a-command-sandpiper"',
  url: 'https://hooks.example.org/services/in-the-path-dotterel',
  token: 'token-of-a-forge-whimbrel',
};

/** What makes each route do what it is there for. A route that is not here is called without fields. */
const forms: Record<string, () => Form> = {
  'POST /projects': () => ({ name: freshName('project'), repository_url: 'git@example.org:a/b.git' }),
  'PUT /projects/ID': () => ({ repository_url: 'git@elsewhere.example.org:a/b.git' }),
  'POST /projects/ID/collaborators': () => ({ email: `${freshName('friend').replace(' ', '')}@example.org` }),
  'POST /projects/ID/schedules': () => ({ cron: '0 3 * * *' }),
  'PUT /projects/ID/schedules/ID': () => ({ cron: '0 4 * * *' }),
  'POST /projects/ID/suites': () => ({ name: freshName('suite'), command: secrets.command }),
  'PUT /projects/ID/suites/ID': () => ({ command: `${secrets.command} again`, name: 'renamed' }),
  'POST /projects/ID/suites/ID/rules': () => ({ subject: 'commit.message', operator: 'contains', value: 'y' }),
  'PUT /projects/ID/suites/ID/rules/ID': () => ({ value: 'z' }),
  'POST /projects/ID/suites/ID/environment_variables': () => ({ name: 'TOKEN', content: secrets.content }),
  'PUT /projects/ID/suites/ID/environment_variables/ID': () => ({ content: secrets.second }),
  'POST /projects/ID/environment_variables': () => ({ name: 'TOKEN', content: secrets.content }),
  'PUT /projects/ID/environment_variables/ID': () => ({ content: secrets.second }),
  'POST /projects/ID/deploy_strategies': () => ({
    name: freshName('strategy'),
    strategy_type: 'git',
    'options[repository_url]': 'deploy@example.org:live.git',
    'options[local_branch]': 'main',
    'options[remote_branch]': 'live',
  }),
  'PUT /projects/ID/deploy_strategies/ID': () => ({ 'options[remote_branch]': 'other' }),
  'POST /projects/ID/notifications': () => ({
    notifiable_type: 'build',
    name: 'webhook',
    'options[url]': secrets.url,
  }),
  'POST /projects/ID/status_targets': () => ({
    provider: 'github',
    repository: 'team/code',
    token: secrets.token,
  }),
  'PUT /projects/ID/notifications/ID': () => ({ 'options[url]': `${secrets.url}/new` }),
  'POST /projects/ID/hooks': () => ({ provider: 'github' }),
  'PUT /projects/ID/hooks/ID': () => ({ 'events[]': 'tag' }),
  'POST /dependencies': () => ({ name: freshName('dependency'), command: 'make PREFIX=/srv/dependency' }),
  'PUT /dependencies/ID': () => ({ launch_command: secrets.command }),
  'PUT /forges/ID': () => ({ token: forgeToken }),
  'POST /registries': () => ({
    host: `${freshName('r').replace(' ', '-')}.example.org`,
    username: 'puller',
    password: secrets.token,
  }),
  'POST /tokens': () => ({ name: 'Script', 'scopes[]': 'user' }),
  'POST /applications': () => ({ name: 'Lamp', 'redirect_uris[]': 'https://lamp.example/cb' }),
  'PUT /applications/ID': () => ({ name: 'Bulb' }),
  'POST /organisations': () => ({ name: freshName('team').replace(' ', '-') }),
  'PUT /organisations/ID': () => ({ description: 'We build' }),
  'POST /organisations/ID/members': () => ({ email: `${freshName('guest').replace(' ', '')}@example.org` }),
  'PUT /organisations/ID/members/ID': () => ({ role: 'developer' }),
  'POST /organisations/ID/environment_variables': () => ({ name: 'TOKEN', content: secrets.content }),
  'PUT /organisations/ID/environment_variables/ID': () => ({ content: secrets.second }),
  'POST /users': () => ({ email: `${freshName('invited').replace(' ', '')}@example.org` }),
};

/** What is deleted comes last, and what holds it after it; what needs something compiled before what begins a compile. */
const inOrder = (a: Route, b: Route): number =>
  Number(a.method === 'DELETE') - Number(b.method === 'DELETE') ||
  Number(Boolean(a.uploads)) - Number(Boolean(b.uploads)) ||
  b.path.length - a.path.length;

describeServiceOnOne(
  'the audit log',
  (service) => {
    let alice: User;
    let watch: AuditWatch;
    let forge: FakeForge;
    /** Of the last call: who made it, and of which project. */
    let about: { actor: string; project: string };
    after(() => forge[Symbol.asyncDispose]());
    before(async () => {
      forge = await FakeForge.start('github', 'team/code');
      alice = await service.user();
      watch = await AuditWatch.begin(service);
    });

    /** Does what a route is there for. */
    const perform = async (route: Route, world: World, token: string | undefined): Promise<Answer> => {
      const call = callOf(route);
      const authorization = token === undefined ? basic(alice.credentials) : `Bearer ${token}`;
      const { store } = service;
      const dependency = { id: BigInt(world.path(':dependency_id')) };
      let form = forms[call]?.() ?? {};
      about = { actor: alice.email, project: world.path(':project_id') };
      if (call === 'POST /projects/ID/transfer') form = { email: (await service.user()).email };
      if (call === 'POST /projects/ID/accept') {
        const giver = await service.user();
        const offered = await giver.createProject();
        await giver.post(`/projects/${offered.id}/transfer`, { email: alice.email });
        await watch.news();
        about.project = String(offered.id);
        return service.api.post(`/projects/${offered.id}/accept`, { headers: { authorization } });
      }
      if (call === 'DELETE /account' && token === undefined) {
        const leaver = await service.user();
        about.actor = leaver.email;
        return service.api.ask('DELETE', '/account', {
          as: leaver.credentials,
          form: { password: leaver.credentials.password },
        });
      }
      if (/\/(share|unshare|compile|archive)$|^PATCH/.test(call))
        await setDependencyState(store, dependency, /un/.test(call) ? 'shared' : 'compiled');
      if (call === 'POST /projects/ID/suites/ID/dependencies') {
        form = { dependency_id: String((await alice.createDependency()).id) };
        await watch.news();
      }
      if (call === 'POST /projects/ID/suites/ID/dependencies/ID/update') {
        // As a suite stands whose dependency is another's and has moved on.
        const other = await service.user();
        const theirs = await other.createDependency();
        await setDependencyState(store, theirs, 'shared');
        const path = world.path('/projects/:project_id/suites/:suite_id/dependencies');
        await alice.post(path, { dependency_id: theirs.id });
        await other.put(`/dependencies/${theirs.id}`, { launch_command: 'new' });
        await watch.news();
        return service.api.post(`${path}/${theirs.id}/update`, { headers: { authorization } });
      }
      if (call === 'POST /projects/ID/build_requests/ID/approve') {
        const project = { id: BigInt(world.path(':project_id')) };
        await alice.put(`/projects/${project.id}`, { fork_builds: 'approval' });
        await watch.news();
        const { request } = await trigger(store, project, 'a'.repeat(40), fromFork);
        const path = `/projects/${project.id}/build_requests/${request?.id}/approve`;
        return service.api.post(path, { headers: { authorization } });
      }
      if (call === 'POST /forges') form = forge.fields;
      if (call === 'POST /projects/ID/connect') form = { forge_id: world.path(':forge_id') };
      if (/forges|connect$/.test(call)) {
        const id = BigInt(world.path(':forge_id'));
        const there = { url: forge.url };
        await store.db.transaction((trx) => trx.updateTable('forges').set(there).where('id', '=', id).execute());
      }
      if (call === 'POST /projects/ID/builds/ID/approve') {
        const waiting = { build_state: 'waiting_for_approval', approval: 1, held: 'needs' };
        const id = BigInt(world.path(':build_id'));
        await store.db.transaction((trx) => trx.updateTable('builds').set(waiting).where('id', '=', id).execute());
      }
      if (call === 'POST /projects/ID/builds/ID/shell') await failAndKeep(store, world);
      if (call === 'POST /projects/ID/deploys') {
        form = { deploy_strategy_id: world.path(':deploy_strategy_id'), commit_id: world.path(':commit_id') };
      }
      if (/\/deploys\/ID\/(approve|reject)$/.test(call)) {
        // Somebody else has requested it.
        const other = await service.user();
        const path = world.path('/projects/:project_id/deploys');
        const of = { deploy_strategy_id: world.path(':deploy_strategy_id'), commit_id: world.path(':commit_id') };
        const made = (await alice.post(path, of)).record.id;
        await store.db.transaction(async (trx) => {
          const by = trx.selectFrom('users').select('id').where('email', '=', other.email);
          const waiting = { state: 'waiting_for_approval', created_by: (await by.executeTakeFirstOrThrow()).id };
          await trx.updateTable('deploys').set(waiting).where('id', '=', made).execute();
        });
        await watch.news();
        return service.api.post(`${path}/${made}/${call.split('/').at(-1)}`, { headers: { authorization } });
      }
      if (route.method === 'PATCH') {
        const body = await archiveOf({ x: '' });
        const path = `/dependencies/${dependency.id}/uploads`;
        const upload = (await alice.post(path, { size: BigInt(body.length) })).record;
        const headers = { authorization, 'upload-offset': '0', 'content-type': 'application/partial-upload' };
        return service.api.ask('PATCH', `${path}/${upload.id}`, { body, headers });
      }
      if (call === 'POST /api_key') {
        const renewed = await service.api.post('/api_key', { headers: { authorization } });
        if (renewed.status < 300) alice.credentials.api_key = String(renewed.record.api_key);
        return renewed;
      }
      const body = route.uploads ? { body: await archiveOf({ x: '' }) } : { form };
      return service.api.ask(route.method, world.path(route.path), { ...body, headers: { authorization } });
    };

    test('has one entry for each change, by whichever way it was made, and none of a secret in it', async () => {
      const application = await registerApplication(service, alice, { name: 'Build lamp' });
      const token = await application.token(alice, [
        'projects',
        'build_requests_create',
        'shells',
        'suites',
        'dependencies',
        'deploys',
        'notifications',
        'organisations',
        'user',
      ]);
      const told = new Map<string, string>();
      for (const [via, held, name] of [
        ['api_key', undefined, null],
        ['token', token, 'Build lamp'],
      ] as const) {
        const world = await buildWorld(service, alice);
        await watch.news();
        for (const route of changing.toSorted(inOrder)) {
          const call = callOf(route);
          if (via === 'token' && route.scope === 'never') {
            assertRefused(await perform(route, world, held), 401, { generic: ['unauthorized'] });
            continue;
          }
          const answer = await perform(route, world, held);
          const entries = await watch.news();
          if (leaveNothing.includes(call)) {
            assert.deepEqual(entries, [], call);
            continue;
          }
          assert.ok(answer.status < 300, `${call}: ${answer.status} ${answer.text}`);
          assert.equal(entries.length, 1, `${call}: ${JSON.stringify(entries.map(({ action }) => action))}`);
          const [entry] = entries;
          assert.ok(entry);
          told.set(call, entry.action);
          assert.deepEqual(
            [entry.actor?.email, entry.via, entry.application, entry.address],
            [about.actor, via, name, '127.0.0.1'],
            call,
          );
          assert.equal(entry.action.split('.')[0], entry.subject.type);
          assert.ok(entry.subject.id !== null && entry.subject.id_str === String(entry.subject.id), call);
          if (route.path.startsWith('/projects/:')) assert.equal(entry.project_id_str, about.project, call);
        }
      }
      told.delete('PATCH /dependencies/ID/uploads/ID'); // another way to do what POST archive does
      // All variables have the same words: an entry of a suite's names the suite.
      for (const call of told.keys())
        if (/^\w+ \/(?:projects|organisations)\/ID\/environment_variables/.test(call)) told.delete(call);
      assert.equal(new Set(told.values()).size, told.size, 'each has a word of its own');
      const text = JSON.stringify(
        (await allEntries(service)).map((entry) => ({ ...entry, id: String(entry.id) })),
        (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
      );
      const { password, api_key: key } = alice.credentials;
      const kept = {
        ...secrets,
        password,
        key,
        accessToken: token,
        clientSecret: application.secret ?? '?',
        publicKey: 'ssh-ed25519',
      };
      for (const [what, secret] of Object.entries(kept)) assert.ok(!text.includes(secret), what);
      for (const fragment of ['kingfisher', 'bittern', 'sandpiper', 'dotterel', 'whimbrel', 'whsec_', 'hrk_', 'hrt_']) {
        assert.ok(!text.includes(fragment), fragment);
      }
      assert.ok(text.includes('hooks.example.org') && text.includes('TOKEN'), 'what is no secret is there');
    });

    test('names the fields that a change changed, and is not told of one that changed nothing', async () => {
      const project = await alice.createProject({ repository_url: 'git@example.org:a.git' });
      const suite = await alice.createSuite(project, { command: 'make' });
      await watch.news();
      const path = `/projects/${project.id}`;
      await alice.put(`${path}/suites/${suite.id}`, {
        name: String(suite.name),
        command: 'make test',
        description: '',
      });
      await alice.put(`${path}/suites/${suite.id}`, { command: 'make test' });
      await alice.put(path, { repository_url: 'git@example.org:b.git' });
      const strategy = await alice.createStrategy(project);
      await alice.put(`${path}/deploy_strategies/${strategy.id}`, {
        name: String(strategy.name),
        'options[local_branch]': 'main',
        'options[remote_branch]': 'elsewhere',
      });
      const entries = await watch.news();
      assert.deepEqual(
        entries.map(({ action, details }) => [action, details]),
        [
          ['suite.updated', { changed: ['command'] }],
          [
            'project.updated',
            {
              changed: ['repository_url'],
              clone_url: { from: 'git@example.org:a.git', to: 'git@example.org:b.git' },
            },
          ],
          ['deploy_strategy.created', { clone_url: 'deploy@example.org:live.git', remote_branch: 'production' }],
          ['deploy_strategy.updated', { changed: ['options[remote_branch]'] }],
        ],
      );
      const dependency = await alice.createDependency();
      await setDependencyState(service.store, dependency, 'shared');
      await watch.news();
      assert.equal((await alice.post(`/dependencies/${dependency.id}/share`)).status, 200);
      assert.deepEqual(await watch.actions(), [], 'it was shared already');
    });

    test('is not told of what failed, nor twice of what was asked for twice', async () => {
      const world = await buildWorld(service, alice);
      const stranger = await service.user();
      await watch.news();
      for (const route of changing) {
        const theirs = await service.api.ask(route.method, world.path(route.path), {
          as: stranger.credentials,
          form: forms[callOf(route)]?.() ?? {},
        });
        if (route.path === '/api_key') stranger.credentials.api_key = String(theirs.record.api_key);
        if (route.body)
          await service.api.ask(route.method, world.path(route.path), {
            as: alice.credentials,
            form: { nonsense: 'x' },
          });
      }
      const ofStranger = await watch.news();
      // What belongs to an account, a stranger makes in their own.
      assert.deepEqual(ofStranger.map(({ action, actor }) => `${action} by ${actor?.email}`).toSorted(), [
        `application.created by ${stranger.email}`,
        `dependency.created by ${stranger.email}`,
        `organisation.created by ${stranger.email}`,
        `project.created by ${stranger.email}`,
        `registry.created by ${stranger.email}`,
        `user.api_key_renewed by ${stranger.email}`,
        `user_token.created by ${stranger.email}`,
      ]);
      const path = `/projects/${world.project.id}/suites`;
      const form = { name: 'taken', command: 'x' };
      const key = { 'idempotency-key': 'once' };
      for (let time = 0; time < 2; time += 1) assert.equal((await alice.post(path, form, key)).status, 201);
      assertRefused(await alice.post(path, form), 403, { name: ['already_exists'] });
      assert.deepEqual(await watch.actions(), ['suite.created']);
    });

    test('comes with every change: what cannot be written down is not done [promise: audit-log]', async () => {
      const { db } = service.store;
      const project = await alice.createProject();
      const run = (statement: string) => db.transaction((trx) => sql.raw(statement).execute(trx));
      await run('alter table audit_entries rename to audit_entries_away');
      try {
        const refused = await alice.post(`/projects/${project.id}/suites`, { name: 'unseen', command: 'x' });
        assert.equal(refused.status, 500);
        const gone = await alice.delete(`/projects/${project.id}`);
        assert.equal(gone.status, 500);
      } finally {
        await run('alter table audit_entries_away rename to audit_entries');
      }
      assert.deepEqual((await alice.get(`/projects/${project.id}/suites`)).list, []);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
