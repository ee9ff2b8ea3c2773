import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { findUser } from '../../../src/server/auth/users.ts';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import { longestCheckMs } from '../../../src/server/triggers/connection-checks.ts';
import { insertForge, setLink } from '../../../src/server/lifecycle/forges.ts';
import { allEntries, AuditWatch } from '../../support/audit.ts';
import { assertNotFound } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

/** What was asked for is there to be taken. */
async function untilQueued(service: Service): Promise<void> {
  const jobs = service.store.db.read.selectFrom('jobs').select('id').where('kind', '=', 'check_connection');
  while ((await jobs.execute()).length === 0) await pause(5);
}

/** For the next 20 seconds there seems to be a runner that takes work. */
const noteRunner = (service: Service): Promise<void> =>
  recordHeartbeat(service.store.db, { holder: 'scripted' }, { version: '0.1.0', trouble: '' });

const pathOf = (project: { id: bigint }): string => `/projects/${project.id}/check_connection`;

describeWithRunner('a look at a repository', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('is answered at once when nobody is there to do it, and leaves no job', async () => {
    const project = await alice.createProject();
    const began = performance.now();
    const { status, record } = await alice.post(pathOf(project));
    assert.ok(performance.now() - began < 10_000);
    assert.deepEqual([status, record.connected, record.default_branch, record.branches], [200, false, null, []]);
    assert.match(String(record.message), /^No runner can check the connection: .*runner/);
    assert.deepEqual(await service.store.db.read.selectFrom('jobs').selectAll().execute(), []);
  });

  test('comes before what waits, carries the key, and answers what was seen', async () => {
    const project = await alice.createProject();
    const audit = await AuditWatch.begin(service);
    await alice.requestBuild(project, 'main');
    await noteRunner(service);
    const answers = [alice.post(pathOf(project)), alice.post(pathOf(project))];
    const asked = async (): Promise<number> => {
      const entries = await allEntries(service);
      return entries.filter(
        ({ project_id: id, action }) => id === project.id && action === 'project.connection_checked',
      ).length;
    };
    while ((await asked()) < 2) await pause(5);
    const task = await runner.take('check_connection');
    const { source, timeoutMs } = task.order.work;
    assert.equal(source.repositoryUrl, project.repository_url);
    assert.match(source.privateKey, /BEGIN OPENSSH PRIVATE KEY/);
    assert.ok(timeoutMs > 0 && timeoutMs <= 14_000);
    const seen = { defaultBranch: 'trunk', branches: ['trunk', 'x'], files: ['go.mod'] };
    assert.deepEqual(await task.finish({ kind: 'checked', ...seen }), { taken: true });
    for (const { status, record } of await Promise.all(answers)) {
      assert.equal(status, 200);
      assert.deepEqual(Object.keys(record), ['connected', 'message', 'default_branch', 'branches']);
      assert.deepEqual([record.connected, record.default_branch, record.branches], [true, 'trunk', ['trunk', 'x']]);
    }
    assert.deepEqual(await audit.actions(), ['project.connection_checked', 'project.connection_checked']);
    // The two of them were one look, and what waited is next.
    await (await runner.take('fetch_commit')).finish({ kind: 'unfetchable', reason: 'key_refused' });
    await runner.assertIdle();
  });

  test('says what opened the repository: the key, nothing, or the token of its forge', async () => {
    const { db, ids, vault } = service.store;
    const url = 'https://git.example.org';
    const seen = { login: 'ada', may: 'null', state: 'connected', state_reason: '' } as const;
    const owner = (await findUser(db.read, alice.email)) ?? assert.fail('nobody has this address');
    const settings = { owner_id: owner.id, provider: 'gitea', url } as const;
    const forge = await db.transaction((trx) => insertForge({ trx, ids, vault }, settings, 'forge-token', seen));
    const ways: [address: string, forgeId: bigint | null, message: RegExp][] = [
      ['git@git.example.org:team/app.git', null, /The project’s key can read the repository/],
      [`${url}/team/app.git`, null, /The repository is public over HTTPS, so no key is needed/],
      [`${url}/team/app.git`, forge.id, /The forge’s token can read the repository/],
    ];
    for (const [address, forgeId, message] of ways) {
      const name = String(message);
      const project = (await alice.post('/projects', { name, clone_url: address })).record;
      await db.transaction((trx) => setLink({ trx }, project.id, { forge_id: forgeId }));
      await noteRunner(service);
      const answer = alice.post(pathOf(project));
      await untilQueued(service);
      const task = await runner.take('check_connection');
      await task.finish({ kind: 'checked', defaultBranch: 'main', branches: ['main'], files: [] });
      assert.match(String((await answer).record.message), message);
    }
  });

  test('says in words what is wrong, and that a runner The runner failed to check the connection', async () => {
    const project = await alice.createProject();
    await noteRunner(service);
    const refused = alice.post(pathOf(project));
    await untilQueued(service);
    const task = await runner.take('check_connection');
    await task.finish({ kind: 'unfetchable', reason: 'key_refused', message: 'The key is not accepted.' });
    assert.deepEqual((await refused).record.message, 'The key is not accepted.');
    await noteRunner(service);
    const lost = alice.post(pathOf(project));
    await untilQueued(service);
    await (await runner.take('check_connection')).finish({ kind: 'lost', message: 'this runner is too old' });
    const { record } = await lost;
    assert.equal(record.connected, false);
    assert.match(String(record.message), /The runner failed to check the connection/);
  });

  test('is for those of the project, and goes with it', async () => {
    const project = await alice.createProject();
    assertNotFound(await (await service.user()).post(pathOf(project)));
    const friend = await service.user('collaborator');
    await alice.invite(project, friend);
    await noteRunner(service);
    const asked = friend.post(pathOf(project));
    await untilQueued(service);
    const task = await runner.take('check_connection');
    await alice.delete(`/projects/${project.id}`);
    assert.deepEqual(await task.finish({ kind: 'checked', defaultBranch: null, branches: [], files: [] }), {
      gone: true,
    });
    assertNotFound(await asked);
  });
});

/** Long enough for the runner to take the work, also on a busy machine. The usual time is 14 seconds. */
const checkMs = 3000;
describeWithRunner(
  'a look at a repository that takes too long',
  (service, runner) => {
    test('is given up when the runner that took it says nothing, and what it says later changes nothing', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const began = performance.now();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const setup = `/ui/projects/${project.id}/setup`;
      const page = await tab.get(setup); // before, because the time of the first look runs
      await noteRunner(service);
      const answered = Promise.all([alice.post(pathOf(project)), tab.submit(page, setup, { do: 'check' })]);
      await untilQueued(service);
      const task = await runner.take('check_connection');
      const [{ status, record }, submitted] = await answered;
      const took = performance.now() - began;
      assert.ok(took >= checkMs && took < 60_000 && longestCheckMs < 15_000);
      assert.deepEqual([status, record.connected], [200, false]);
      assert.match(String(record.message), /^The runner did not finish the connection check in time/);
      assert.equal(submitted.status, 303);
      assert.match((await tab.get(setup)).text, /role="alert">\s*The runner did not finish the connection check/);
      assert.deepEqual(await task.hears(), 'gone');
      const late = { defaultBranch: 'main', branches: ['main'], files: [] };
      assert.deepEqual(await task.finish({ kind: 'checked', ...late }), { gone: true });
      assert.doesNotMatch((await tab.get(setup)).text, /Connected\./);
      await runner.assertIdle();
    });
  },
  { checkMs },
);
