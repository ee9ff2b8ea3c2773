import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { noteVisits } from '../../src/auth/runner-visits.ts';
import { AuditWatch } from '../support/audit.ts';
import { assertNotFound } from '../support/expect.ts';
import { ScriptedRunner } from '../support/runner.ts';
import { describeService } from '../support/service.ts';
import type { User } from '../support/user.ts';

describeService('a look at a repository', (service) => {
  let alice: User;
  let runner: ScriptedRunner;
  before(async () => {
    alice = await service.user();
    runner = await ScriptedRunner.start(service.store);
  });
  const pathOf = (project: { id: bigint }): string => `/projects/${project.id}/check_connection`;

  test('is answered at once when nobody is there to do it, and leaves no job', async () => {
    const project = await alice.createProject();
    const began = performance.now();
    const { status, record } = await alice.post(pathOf(project));
    assert.ok(performance.now() - began < 10_000);
    assert.deepEqual([status, record.connected, record.default_branch, record.branches], [200, false, null, []]);
    assert.match(String(record.message), /^Nobody can look at the repository: .*runner/);
    assert.deepEqual(await service.store.db.read.selectFrom('jobs').selectAll().execute(), []);
  });

  test('comes before what waits, carries the key, and answers what was seen', async () => {
    await noteVisits(service.store.db)({ holder: 'scripted' }, { version: '0.1.0', trouble: '' });
    const project = await alice.createProject();
    const audit = await AuditWatch.begin(service);
    await alice.requestBuild(project, 'main');
    const answers = [alice.post(pathOf(project)), alice.post(pathOf(project))];
    const task = await runner.take('check_connection');
    const { source, timeoutMs } = task.order.work;
    assert.equal(source.repositoryUrl, project.repository_url);
    assert.match(source.privateKey, /BEGIN OPENSSH PRIVATE KEY/);
    assert.ok(timeoutMs > 0 && timeoutMs <= 14_000);
    const seen = { defaultBranch: 'trunk', branches: ['trunk', 'x'], files: ['go.mod'] };
    assert.deepEqual(await task.finish({ kind: 'looked', ...seen }), { taken: true });
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

  test('says in words what is wrong, and that a runner could not do its part', async () => {
    const project = await alice.createProject();
    const refused = alice.post(pathOf(project));
    const task = await runner.take('check_connection');
    await task.finish({ kind: 'unfetchable', reason: 'key_refused', message: 'The key is not accepted.' });
    assert.deepEqual((await refused).record.message, 'The key is not accepted.');
    const lost = alice.post(pathOf(project));
    await (await runner.take('check_connection')).finish({ kind: 'lost', message: 'this runner is too old' });
    const { record } = await lost;
    assert.equal(record.connected, false);
    assert.match(String(record.message), /could not do its part/);
  });

  test('is for those of the project, and goes with it', async () => {
    const project = await alice.createProject();
    assertNotFound(await (await service.user()).post(pathOf(project)));
    const friend = await service.user('collaborator');
    await alice.invite(project, friend);
    const asked = friend.post(pathOf(project));
    const task = await runner.take('check_connection');
    await alice.delete(`/projects/${project.id}`);
    assert.deepEqual(await task.finish({ kind: 'looked', defaultBranch: null, branches: [], files: [] }), {
      gone: true,
    });
    assertNotFound(await asked);
  });
});
