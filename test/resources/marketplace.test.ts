import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertCreated, assertDestroyed, assertFields, assertNotFound, assertRefused } from '../support/expect.ts';
import { setDependencyState } from '../support/rows.ts';
import { describeService } from '../support/service.ts';

describeService('the marketplace', (service) => {
  test('lists what is shared, newest first, and finds it by name', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const kept = await alice.createDependency({ name: 'Ruby kept' });
    const older = await alice.createDependency({ name: 'Ruby 100%' });
    const newer = await alice.createDependency({ name: 'Postgres_16' });
    assertRefused(await alice.post(`/dependencies/${older.id}/share`), 403, {
      generic: ['resource_temporary_unavailable'],
    });
    for (const one of [kept, older, newer]) await setDependencyState(service.store, one, 'compiled');
    for (const one of [older, newer]) {
      assert.equal((await alice.post(`/dependencies/${one.id}/share`)).record.marketplace_state, 'shared');
    }
    const names = async (query = ''): Promise<unknown[]> =>
      (await bob.get(`/marketplace${query}`)).list.map((one) => one.name);
    assert.deepEqual(await names(), ['Postgres_16', 'Ruby 100%']);
    assert.deepEqual(await names('?name=ruby'), ['Ruby 100%']);
    assert.deepEqual(await names('?name=0%25'), ['Ruby 100%']);
    assert.deepEqual(await names('?name=%25y'), []);
    assert.deepEqual(await names('?name=s_1'), ['Postgres_16']);
    assert.deepEqual(await names('?name=s_6'), []);
    const [item = {}] = (await bob.get('/marketplace?limit=1')).list;
    assertFields(
      item,
      'id id_str name description command prefix source launch_command marketplace_state archive_content_type archive_file_size related_dependencies',
    );
    const again = await alice.post(`/dependencies/${older.id}/share`);
    assert.equal(again.status, 200);
    assert.equal((await alice.post(`/dependencies/${older.id}/unshare`)).record.marketplace_state, 'compiled');
    assert.deepEqual(await names(), ['Postgres_16']);
  });
});

describeService('dependencies of a suite', (service) => {
  test('are attached, listed in order and detached', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/dependencies`;
    const [first, second] = [await alice.createDependency({ launch_command: 'go' }), await alice.createDependency()];
    const answers = [];
    for (const one of [second, first]) answers.push(await alice.post(path, { dependency_id: one.id }));
    for (const answer of answers) assertCreated(answer, 'id id_ref name prefix launch_command update_available');
    const { id, name } = first;
    const shown = { id, id_ref: String(id), name, prefix: '/srv/dependency', launch_command: 'go' };
    const expected = { ...shown, update_available: false };
    assert.deepEqual(answers[1]?.record, expected);
    assert.deepEqual((await alice.get(path)).list, [answers[0]?.record, expected]);
    const twice = await alice.post(path, { dependency_id: id });
    assertRefused(twice, 403, { dependency_id: ['already_exists'] });
    assertDestroyed(await alice.delete(`${path}/${second.id}`));
    assertNotFound(await alice.delete(`${path}/${second.id}`));
    assert.deepEqual((await alice.get(path)).list, [expected]);
  });

  test('are the project owner’s or shared ones, whoever attaches them', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    await alice.invite(project, bob);
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/dependencies`;
    const [owners, collaborators] = [await alice.createDependency(), await bob.createDependency()];
    assert.equal((await bob.post(path, { dependency_id: owners.id })).status, 201);
    const refused = await bob.post(path, { dependency_id: collaborators.id });
    assertRefused(refused, 404, { dependency_id: ['not_found'] });
    assertRefused(await bob.post(path, { dependency_id: '17' }), 404, { dependency_id: ['not_found'] });
    assertRefused(await bob.post(path, { dependency_id: 'x' }), 403, { dependency_id: ['invalid_format'] });
    assertRefused(await bob.post(path), 403, { dependency_id: ['is_blank'] });
    await setDependencyState(service.store, collaborators, 'shared');
    assert.equal((await bob.post(path, { dependency_id: collaborators.id })).status, 201);
  });
});
