import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testsOnOne } from '../../support/databases.ts';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertWrongFields,
} from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

for (const owner of ['suite', 'project'] as const)
  describeService(`environment variables of a ${owner}`, (service, database) => {
    const testOnOne = testsOnOne(database);
    const variablesOf = async (alice: User, project: Record_): Promise<string> => {
      const of = owner === 'suite' ? `/suites/${(await alice.createSuite(project)).id}` : '';
      return `/projects/${project.id}${of}/environment_variables`;
    };

    test('are created, listed in clear, changed and deleted', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const path = await variablesOf(alice, project);
      const content = '  two\nlines, ünï, "quoted"  ';
      const answer = await alice.post(path, { name: 'TOKEN', content });
      assertCreated(answer, 'id id_str name content secret refs');
      assert.equal(answer.record.secret, true);
      assert.equal(answer.record.content, content);
      const second = (await alice.post(path, { name: 'OTHER', content: 'x' })).record;
      assert.deepEqual((await alice.get(path)).list, [answer.record, second]);
      assert.deepEqual((await alice.get(`${path}/${answer.record.id}`)).record, answer.record);
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
      const path = await variablesOf(alice, project);
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
      const path = await variablesOf(alice, project);
      assert.equal((await alice.post(path, { name: 'EMPTY' })).record.content, '');
      assert.equal((await alice.post(path, { name: 'NOTHING', content: '' })).record.content, '');
      const blank = (await alice.post(path, { name: 'BLANK', content: ' \n' })).record;
      assert.equal(blank.content, ' \n');
      assert.equal((await alice.put(`${path}/${blank.id}`, { content: '' })).record.content, '');
    });

    testOnOne('cannot take names that the service or a shell has no room for', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const path = await variablesOf(alice, project);
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
      const path = await variablesOf(alice, project);
      const plain = await alice.post(path, { name: 'NODE_ENV', content: 'production', secret: 'false' });
      assertCreated(plain, 'id id_str name content secret refs');
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

    testOnOne('warn where masking them would hide ordinary words', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const path = await variablesOf(alice, project);
      const word = await alice.post(path, { name: 'NODE_ENV', content: 'production' });
      assertCreated(word, 'id id_str name content secret refs warning');
      assert.match(String(word.record.warning), /ordinary words.*set secret to false/);
      const own = `${path}/${word.record.id}`;
      assert.ok('warning' in (await alice.put(own, { name: 'RAILS_ENV' })).record);
      assert.ok(!('warning' in (await alice.put(own, { content: 'kB7-x93mQ' })).record));
      assert.ok('warning' in (await alice.put(own, { content: 'development' })).record);
      assert.ok(!('warning' in (await alice.put(own, { secret: 'false' })).record));
      assertFields((await alice.get(path)).list[0] ?? {}, 'id id_str name content secret refs');
      // What is too short to be masked hides nothing.
      assert.ok(!('warning' in (await alice.post(path, { name: 'SHORT', content: 'test' })).record));
    });

    test('are unique by name in their suite or project alone, and seen there alone', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const paths = [await variablesOf(alice, project), await variablesOf(alice, await alice.createProject())];
      const made: Record_[] = [];
      for (const path of paths) made.push((await alice.post(path, { name: 'SAME', content: 'x' })).record);
      await alice.createVariable(project, await alice.createSuite(project), { name: 'SAME' });
      for (const method of ['get', 'delete', 'put'] as const) {
        assertNotFound(await alice[method](`${paths[0]}/${made[1]?.id}`));
        assertNotFound(await (await service.user())[method](`${paths[0]}/${made[0]?.id}`));
      }
      for (const path of paths) assert.equal((await alice.get(path)).list.length, 1);
    });

    test('are audited without their contents', async () => {
      const alice = await service.user();
      const path = await variablesOf(alice, await alice.createProject());
      const { record } = await alice.post(path, { name: 'AUDITED', content: 'never-told' });
      await alice.put(`${path}/${record.id}`, { content: 'never-told-either' });
      await alice.delete(`${path}/${record.id}`);
      const rows = service.store.db.read.selectFrom('audit_entries').selectAll().where('subject_id', '=', record.id);
      const entries = await rows.orderBy('id').execute();
      assert.deepEqual(
        entries.map(({ action }) => action),
        ['created', 'updated', 'deleted'].map((what) => `environment_variable.${what}`),
      );
      for (const { details } of entries) assert.doesNotMatch(details, /never-told/);
    });
  });
