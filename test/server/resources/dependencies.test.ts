import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertRefused,
  assertWrongFields,
} from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';
import { freshName } from '../../support/user.ts';

const described = 'name description command prefix source image';
const uploaded = 'archive_content_type archive_file_size';
const fetched = `id id_str ${described} ${uploaded} launch_command related_dependencies marketplace_state`;

describeService('dependencies', (service) => {
  test('answer differently when created and when fetched', async () => {
    const alice = await service.user();
    const command = 'make install PREFIX=/srv/dependency';
    const answer = await alice.post('/dependencies', { name: 'ruby', command });
    assertCreated(answer, `id id_ref ${described} launch_command marketplace_state`);
    const { id, id_ref, marketplace_state, ...rest } = answer.record;
    assert.equal(id_ref, String(id));
    assert.equal(marketplace_state, 'private');
    assert.deepEqual(rest, {
      name: 'ruby',
      command,
      description: '',
      prefix: '/srv/dependency',
      source: '',
      image: '',
      launch_command: '',
    });
    const fetch = (await alice.get(`/dependencies/${id}`)).record;
    assertFields(fetch, fetched);
    assert.deepEqual(fetch, {
      ...rest,
      id,
      id_str: String(id),
      marketplace_state: 'waiting_archive_upload',
      archive_content_type: null,
      archive_file_size: null,
      related_dependencies: [],
    });
    assert.deepEqual((await alice.get('/dependencies')).list, [fetch]);
  });

  test('keep what a change does not send', async () => {
    const alice = await service.user();
    const { id } = await alice.createDependency({ source: 'src', launch_command: 'daemon -d', description: 'd' });
    const before = (await alice.get(`/dependencies/${id}`)).record;
    const after = await alice.put(`/dependencies/${id}`, { launch_command: '', description: 'e' });
    assertFields(after.record, fetched);
    assert.deepEqual(after.record, { ...before, launch_command: '', description: 'e' });
    assert.deepEqual((await alice.get(`/dependencies/${id}`)).record, after.record);
    const moved = { prefix: '/opt/x', command: 'make install DESTDIR=/opt/x' };
    assert.deepEqual((await alice.put(`/dependencies/${id}`, moved)).record, { ...after.record, ...moved });
    assertWrongFields(await alice.put(`/dependencies/${id}`, { prefix: '/opt/y' }), { command: 'invalid_format' });
    assertWrongFields(await alice.put(`/dependencies/${id}`, { name: ' ' }), { name: 'is_blank' });
  });

  test('have a command that names the prefix, and a prefix that is free', async () => {
    const alice = await service.user();
    const ask = (prefix: string, command = `make PREFIX=${prefix}`) =>
      alice.post('/dependencies', { name: freshName('dependency'), command, prefix });
    for (const command of ['make', 'make PREFIX=/opt/thingy', 'make PREFIX=/opt']) {
      assertWrongFields(await ask('/opt/thing', command), { command: 'invalid_format' });
    }
    for (const prefix of ['/', '/usr', '/usr/local', '/bin', '/lib', '/lib64/x', '/sbin', '/etc/x', '/proc', '/sys']) {
      assertWrongFields(await ask(prefix), { prefix: 'is_reserved' });
    }
    for (const prefix of [
      '/dev',
      '/tmp/x',
      '/build',
      '/build/x',
      '/usr/',
      '/run/x',
      '/home',
      '/home/build/x',
      '/var',
    ]) {
      assertWrongFields(await ask(prefix), { prefix: 'is_reserved' });
    }
    for (const prefix of ['opt', '/opt/../usr', '/opt//x', './x', '/opt/.']) {
      assertWrongFields(await ask(prefix), { prefix: 'invalid_format' });
    }
    assert.equal((await ask('/opt/thing', 'make PREFIX="/opt/thing"')).status, 201);
    assert.equal((await ask('/opt/thing', 'cp -r . /opt/thing/')).status, 201);
    for (const prefix of ['/home/builder', '/var/lib/x']) assert.equal((await ask(prefix)).status, 201);
    const source = { name: 's', command: 'make /srv/dependency', source: '../x' };
    assertWrongFields(await alice.post('/dependencies', source), { source: 'invalid_format' });
  });

  test('are unique by name in the account', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const { name } = await alice.createDependency();
    await bob.createDependency({ name: String(name) });
    assertWrongFields(await alice.post('/dependencies', { name: String(name) }), {
      name: 'already_exists',
      command: 'is_blank',
    });
  });

  test('are compiled against others, in order and never in a circle', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const [zlib, ssl, ruby] = [
      await alice.createDependency(),
      await alice.createDependency(),
      await alice.createDependency(),
    ];
    const path = `/dependencies/${ruby.id}`;
    const list: [string, string][] = [ssl, zlib].map(({ id }) => ['related_dependencies[]', String(id)]);
    const related = [ssl, zlib].map(({ id, name }) => ({ id, id_str: String(id), name }));
    assert.deepEqual((await alice.put(path, list)).record.related_dependencies, related);
    assert.deepEqual((await alice.put(path, { description: 'x' })).record.related_dependencies, related);
    assert.deepEqual((await alice.get(path)).record.related_dependencies, related);

    const back = await alice.put(`/dependencies/${zlib.id}`, { 'related_dependencies[]': ruby.id });
    assertWrongFields(back, { related_dependencies: 'invalid_format' });
    const itself = await alice.put(path, { 'related_dependencies[]': ruby.id });
    assertWrongFields(itself, { related_dependencies: 'invalid_format' });

    const foreign = await bob.createDependency();
    const asked = await alice.put(path, { 'related_dependencies[]': foreign.id });
    assertRefused(asked, 404, { related_dependencies: ['not_found'] });
    assertRefused(await alice.delete(`/dependencies/${zlib.id}`), 403, { generic: ['resource_temporary_unavailable'] });
    assert.deepEqual((await alice.put(path, { 'related_dependencies[]': '' })).record.related_dependencies, []);
    assertDestroyed(await alice.delete(`/dependencies/${zlib.id}`));
  });

  test('are deleted when nothing uses them', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const { id } = await alice.createDependency();
    const attached = `/projects/${project.id}/suites/${suite.id}/dependencies`;
    await alice.post(attached, { dependency_id: id });
    assertRefused(await alice.delete(`/dependencies/${id}`), 403, { generic: ['resource_temporary_unavailable'] });
    assertDestroyed(await alice.delete(`${attached}/${id}`));
    assertDestroyed(await alice.delete(`/dependencies/${id}`));
    assertNotFound(await alice.get(`/dependencies/${id}`));
  });

  test('belong to one account', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const { id } = await alice.createDependency();
    assertNotFound(await bob.get(`/dependencies/${id}`));
    assertNotFound(await bob.put(`/dependencies/${id}`, { name: 'x' }));
    assertNotFound(await bob.delete(`/dependencies/${id}`));
    assertNotFound(await bob.post(`/dependencies/${id}/share`));
    assert.deepEqual((await bob.get('/dependencies')).list, []);
  });
});
