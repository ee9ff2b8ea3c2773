import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertCreated, assertDestroyed, assertFields, assertNotFound, assertRefused } from '../../support/expect.ts';
import { setDependencyState } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

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
      'id id_str name description command prefix source image archive_content_type archive_file_size launch_command related_dependencies marketplace_state',
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

  test('can be looked at by whoever may attach them, where they are shared', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const [carol, debtor] = [await service.user('collaborator'), await service.user()];
    const own = await debtor.createDependency();
    for (const person of [carol, debtor]) await alice.invite(project, person);
    await service.stopPaying(debtor);
    const { id } = await bob.createDependency();
    const path = `/dependencies/${id}`;
    const unauthorized = { generic: ['unauthorized'] };
    const payment = { generic: ['payment_required'] };
    const look = async (): Promise<[number, number]> => [
      (await carol.get(path)).status,
      (await debtor.get(path)).status,
    ];
    assert.deepEqual(await look(), [401, 402]);
    await setDependencyState(service.store, { id }, 'shared');
    assert.deepEqual((await carol.get(path)).record, (await bob.get(path)).record);
    assert.deepEqual((await debtor.get(path)).record, (await bob.get(path)).record);
    const attached = await carol.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: id });
    assert.equal(attached.status, 201);
    // Nothing else of it is theirs.
    for (const more of ['/log', '/log.txt', '/firehose'])
      assertRefused(await carol.get(path + more), 401, unauthorized);
    assertRefused(await carol.put(path, { name: 'mine' }), 401, unauthorized);
    assertRefused(await carol.post(`${path}/compile`), 401, unauthorized);
    assertNotFound(await alice.post(`${path}/compile`));
    // What is one's own is to be paid for, shared or not.
    await setDependencyState(service.store, own, 'shared');
    assertRefused(await debtor.get(`/dependencies/${own.id}`), 402, payment);
    assert.equal((await bob.post(`${path}/unshare`)).status, 200);
    assert.deepEqual(await look(), [401, 402]);
  });
});
