import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertCreated, assertDestroyed, assertFields, assertNotFound, assertWrongFields } from '../support/expect.ts';
import { describeService } from '../support/service.ts';

describeService('environment variables', (service) => {
  test('are created, listed in clear, changed and deleted', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    const content = '  two\nlines, ünï, "quoted"  ';
    const answer = await alice.post(path, { name: 'TOKEN', content });
    assertCreated(answer, 'id id_str name content secret');
    assert.equal(answer.record.secret, true);
    assert.equal(answer.record.content, content);
    const second = (await alice.post(path, { name: 'OTHER', content: 'x' })).record;
    assert.deepEqual((await alice.get(path)).list, [answer.record, second]);
    const renamed = await alice.put(`${path}/${answer.record.id}`, { name: 'KEY' });
    assert.deepEqual(renamed.record, { ...answer.record, name: 'KEY' });
    const refilled = await alice.put(`${path}/${answer.record.id}`, { content: 'new' });
    assert.deepEqual((await alice.get(path)).list, [{ ...renamed.record, content: 'new' }, second]);
    assert.equal(refilled.record.content, 'new');
    assertDestroyed(await alice.delete(`${path}/${second.id}`));
    assertNotFound(await alice.delete(`${path}/${second.id}`));
    assertNotFound(await alice.put(`${path}/${second.id}`, { content: 'x' }));
    assert.equal((await alice.get(path)).list.length, 1);
  });

  test('keep both changes of two who change different fields at once', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    const { id } = (await alice.post(path, { name: 'FIRST', content: 'first' })).record;
    for (let turn = 0; turn < 30; turn += 1) {
      const sent = { name: `NAME_${turn}`, content: `content ${turn}` };
      await Promise.all([
        alice.put(`${path}/${id}`, { name: sent.name }),
        alice.put(`${path}/${id}`, { content: sent.content }),
      ]);
      const [kept] = (await alice.get(path)).list;
      assert.deepEqual({ name: kept?.name, content: kept?.content }, sent);
    }
  });

  test('may be empty or white space alone', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    assert.equal((await alice.post(path, { name: 'EMPTY' })).record.content, '');
    assert.equal((await alice.post(path, { name: 'NOTHING', content: '' })).record.content, '');
    const blank = (await alice.post(path, { name: 'BLANK', content: ' \n' })).record;
    assert.equal(blank.content, ' \n');
    assert.equal((await alice.put(`${path}/${blank.id}`, { content: '' })).record.content, '');
  });

  test('cannot take names that the service or a shell has no room for', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    for (const name of ['CI', 'HEADRACE', 'HEADRACE_REF', 'HEADRACEX']) {
      assertWrongFields(await alice.post(path, { name, content: 'x' }), { name: 'is_reserved' });
    }
    for (const name of ['1A', 'A-B', 'A B', 'A=B', 'Ä']) {
      assertWrongFields(await alice.post(path, { name, content: 'x' }), { name: 'invalid_format' });
    }
    assertWrongFields(await alice.post(path, { content: 'a\0b' }), { name: 'is_blank', content: 'invalid_format' });
    const variable = (await alice.post(path, { name: 'ci', content: 'x' })).record;
    assertWrongFields(await alice.put(`${path}/${variable.id}`, { name: 'CI' }), { name: 'is_reserved' });
    assertWrongFields(await alice.post(path, { name: 'ci', content: 'x' }), { name: 'already_exists' });
  });

  test('are secret unless somebody says otherwise', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    const plain = await alice.post(path, { name: 'NODE_ENV', content: 'production', secret: 'false' });
    assertCreated(plain, 'id id_str name content secret');
    assert.equal(plain.record.secret, false);
    assert.equal((await alice.post(path, { name: 'BLANK', content: 'x', secret: '' })).record.secret, true);
    const json = { name: 'JSON', content: 'x', secret: false };
    assert.equal((await service.api.post(path, { as: alice.credentials, json })).record.secret, false);
    for (const secret of ['no', '2', 'False']) {
      assertWrongFields(await alice.post(path, { name: 'X', secret }), { secret: 'invalid_format' });
    }
    const own = `${path}/${plain.record.id}`;
    assert.equal((await alice.put(own, { content: 'staging' })).record.secret, false);
    assert.equal((await alice.put(own, { secret: 'true' })).record.secret, true);
    assert.deepEqual(
      (await alice.get(path)).list.map(({ name, secret }) => [name, secret]),
      [
        ['NODE_ENV', true],
        ['BLANK', true],
        ['JSON', false],
      ],
    );
  });

  test('warn where masking them would hide ordinary words', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/environment_variables`;
    const word = await alice.post(path, { name: 'NODE_ENV', content: 'production' });
    assertCreated(word, 'id id_str name content secret warning');
    assert.match(String(word.record.warning), /ordinary words.*set secret to false/);
    const own = `${path}/${word.record.id}`;
    assert.ok('warning' in (await alice.put(own, { name: 'RAILS_ENV' })).record);
    assert.ok(!('warning' in (await alice.put(own, { content: 'kB7-x93mQ' })).record));
    assert.ok('warning' in (await alice.put(own, { content: 'development' })).record);
    assert.ok(!('warning' in (await alice.put(own, { secret: 'false' })).record));
    assertFields((await alice.get(path)).list[0] ?? {}, 'id id_str name content secret');
    // What is too short to be masked hides nothing.
    assert.ok(!('warning' in (await alice.post(path, { name: 'SHORT', content: 'test' })).record));
  });

  test('are unique by name in their suite alone', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    for (const suite of [await alice.createSuite(project), await alice.createSuite(project)]) {
      await alice.createVariable(project, suite, { name: 'SAME' });
    }
  });
});
