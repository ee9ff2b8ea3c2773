import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Answer } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { freshName, type User } from '../../support/user.ts';

const unreadable = { generic: ['invalid_format'] };
const form = 'application/x-www-form-urlencoded';

describeServiceOnOne('a request body', (service) => {
  let alice: User;
  let path: string;
  before(async () => {
    alice = await service.user();
    path = `/projects/${(await alice.createProject()).id}/suites`;
  });

  const send = (type: string, body: string | Uint8Array): Promise<Answer> =>
    service.api.post(path, { as: alice.credentials, body, headers: { 'content-type': type } });

  function multipart(fields: [string, string | Uint8Array][]): Uint8Array {
    const parts = fields.flatMap(([name, value]) => [
      Buffer.from(`--cut\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n`),
      Buffer.from(value),
      Buffer.from('\r\n'),
    ]);
    return Buffer.concat([...parts, Buffer.from('--cut--\r\n')]);
  }

  test('may be a form, multipart or JSON, with the same effect', async () => {
    const strategies = path.replace('suites', 'deploy_strategies');
    const flat: [string, string][] = [
      ['name', 'grüße & = + %'],
      ['strategy_type', 'git'],
      ['options[repository_url]', 'a@b:c'],
      ['options[local_branch]', 'main'],
      ['options[remote_branch]', 'ünï'],
    ];
    const options = { repository_url: 'a@b:c', clone_url: 'a@b:c', local_branch: 'main', remote_branch: 'ünï' };
    const bodies = [
      { form: flat },
      { body: multipart(flat), headers: { 'content-type': 'multipart/form-data; boundary=cut' } },
      { json: { name: 'grüße & = + %', strategy_type: 'git', options } },
    ];
    for (const body of bodies) {
      const created = (await service.api.post(strategies, { as: alice.credentials, ...body })).record;
      assert.deepEqual([created.name, created.options], ['grüße & = + %', options]);
      await alice.delete(`${strategies}/${created.id}`);
    }
  });

  test('carries 64-bit identifiers to the last digit, as numbers and as text', async () => {
    const { id: suiteId } = (await alice.post(path, { name: freshName('suite'), command: 'x' })).record;
    const dependency = await alice.createDependency();
    const attached = `${path}/${suiteId}/dependencies`;
    assert.ok(dependency.id > 2n ** 53n);
    for (const id of [dependency.id, String(dependency.id)]) {
      const answer = await service.api.post(attached, { as: alice.credentials, json: { dependency_id: id } });
      assert.equal(answer.status, 201, answer.text);
      assert.ok(answer.text.includes(`"id":${dependency.id},`));
      await alice.delete(`${attached}/${dependency.id}`);
    }
    const neighbour = await service.api.post(attached, {
      as: alice.credentials,
      json: { dependency_id: dependency.id + 1n },
    });
    assertRefused(neighbour, 404, { dependency_id: ['not_found'] });
  });

  test('is refused as a whole when it cannot be read', async () => {
    const deep = `{"name":${'['.repeat(10_000)}${']'.repeat(10_000)}}`;
    const broken: [string, string | Uint8Array][] = [
      ['application/json', '{"name":'],
      ['application/json', '[]'],
      ['application/json', '"text"'],
      ['application/json', 'null'],
      ['application/json', deep],
      ['application/json', '['.repeat(100_000)],
      ['application/json', '{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}'],
      ['application/json', '{"__proto__":{"name":"x"}}'],
      ['application/json', '{"options":{"constructor":1}}'],
      ['application/json', '{"name":"a","name":"b","command":"c"}'],
      ['application/json', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
      ['application/json', JSON.stringify(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`f${i}`, 1])))],
      [form, 'name=%ff&command=x'],
      [form, 'name=%zz'],
      [form, Buffer.from([0x6e, 0x3d, 0xff])],
      [form, '__proto__[name]=x'],
      [form, 'constructor=x'],
      [form, 'a[b[c]=x'],
      [form, '=x'],
      [form, 'a[b][c][d][e][f]=x'],
      [form, Array.from({ length: 5000 }, (_, i) => `f${i}=1`).join('&')],
      ['multipart/form-data; boundary=cut', 'no parts'],
      ['multipart/form-data', multipart([['name', 'x']])],
      ['multipart/form-data; boundary=cut', multipart([['name', Buffer.from([0xff])]])],
      ['text/plain', 'name=x'],
      ['application/xml', '<name/>'],
      ['nonsense', 'x'],
    ];
    for (const [type, body] of broken) {
      const answer = await send(type, body);
      assertRefused(answer, 403, unreadable);
      assert.ok(answer.headers['x-request-id']);
    }
  });

  test('over the limit is refused and the service goes on', async () => {
    for (const type of [form, 'application/json', 'multipart/form-data; boundary=cut']) {
      const answer = await send(type, 'x'.repeat(1024 * 1024 + 1));
      assertRefused(answer, 403, unreadable);
    }
    assert.equal((await alice.get(path)).status, 200);
  });

  test('names a field twice and is told so under its name', async () => {
    const twice = await send(form, 'name=a&name=b&command=c');
    assertWrongFields(twice, { name: 'invalid_format' });
    const parts = multipart([
      ['name', 'a'],
      ['command', 'c'],
      ['command', 'd'],
    ]);
    assertWrongFields(await send('multipart/form-data; boundary=cut', parts), { command: 'invalid_format' });
    assertWrongFields(await send(form, 'name=a&name[x]=b&command[]=c'), {
      name: 'invalid_format',
      command: 'invalid_format',
    });
  });

  test('of the wrong shape, or with NUL or half a character in it, is told under the field', async () => {
    const wrong = { name: 'invalid_format', command: 'invalid_format' };
    assertWrongFields(await send(form, 'name=a%00b&command=%00'), wrong);
    assertWrongFields(await send('application/json', '{"name":"\\ud800","command":"a\\u0000"}'), wrong);
    assertWrongFields(await send('application/json', '{"name":{"a":1},"command":["x"]}'), wrong);
    assertWrongFields(await send('application/json', '{"name":null,"command":"  "}'), {
      name: 'is_blank',
      command: 'is_blank',
    });
  });

  test('with a field that the endpoint does not have is refused, under its name, whatever its kind', async () => {
    const wrong = { id: 'invalid_format', 'options[url]': 'invalid_format', list: 'invalid_format' };
    const fields: [string, string][] = [
      ['name', freshName('suite')],
      ['command', 'x'],
      ['id', '1'],
      ['options[url]', 'y'],
      ['list[]', 'z'],
    ];
    const before = (await alice.get(path)).list.length;
    const json = { name: 'x', command: 'x', id: 1, options: { url: 'y' }, list: ['z'] };
    assertWrongFields(await service.api.post(path, { as: alice.credentials, form: fields }), wrong);
    assertWrongFields(await send('multipart/form-data; boundary=cut', multipart(fields)), wrong);
    assertWrongFields(await service.api.post(path, { as: alice.credentials, json }), wrong);
    assert.equal((await alice.get(path)).list.length, before, 'nothing was made');
    // What is in the query is not for the endpoint alone: proxies and trackers add to it.
    const suite = { name: freshName('suite'), command: 'x' };
    assert.equal((await alice.post(`${path}?utm_source=mail&command=y&hasOwnProperty=1`, suite)).record.command, 'x');
  });

  test('of which an & cut a field in two makes nothing', async () => {
    const before = (await alice.get(path)).list.length;
    assertWrongFields(await send(form, 'name=cut&command=npm ci && npm test'), { ' npm test': 'invalid_format' });
    assertWrongFields(await send(form, 'command=make&lint=1'), { name: 'is_blank', lint: 'invalid_format' });
    assert.equal((await alice.get(path)).list.length, before);
    const whole = await send(form, `name=whole&command=${encodeURIComponent('npm ci && npm test')}`);
    assert.equal(whole.record.command, 'npm ci && npm test');
  });

  test('with unknown fields changes nothing either, nor does one for an endpoint that takes none', async () => {
    const suite = (await alice.post(path, { name: freshName('suite'), command: 'x' })).record;
    const put = (json: unknown): Promise<Answer> =>
      service.api.put(`${path}/${suite.id}`, { as: alice.credentials, json });
    assertWrongFields(await put({ command: 'y', comand: 'z' }), { comand: 'invalid_format' });
    const ofAnswers = { id: 'invalid_format', id_str: 'invalid_format', files_from_id_str: 'invalid_format' };
    assertWrongFields(await put({ ...suite, command: 'y' }), ofAnswers);
    assert.equal((await alice.get(`${path}/${suite.id}`)).record.command, 'x');
    // Node's client does not say by itself how long the body of a DELETE is.
    const remove = (body: string): Promise<Answer> => {
      const headers = { 'content-type': form, 'content-length': String(body.length) };
      return service.api.delete(`${path}/${suite.id}`, { as: alice.credentials, body, headers });
    };
    assertWrongFields(await remove('force=1'), { force: 'invalid_format' });
    assert.equal((await remove('')).status, 200);
  });

  test('knows the groups of an endpoint, and nothing else in them or in their place', async () => {
    const notifications = path.replace('suites', 'notifications');
    const hook = { name: 'webhook', notifiable_type: 'build', options: { url: 'https://example.org/' } };
    const post = (json: unknown): Promise<Answer> => service.api.post(notifications, { as: alice.credentials, json });
    const more = { ...hook.options, secret: 'x' };
    assertWrongFields(await post({ ...hook, options: more }), { 'options[secret]': 'invalid_format' });
    const made = (await post(hook)).record;
    const put = (json: unknown): Promise<Answer> =>
      service.api.put(`${notifications}/${made.id}`, { as: alice.credentials, json });
    assertWrongFields(await put({ options: 'x' }), { options: 'invalid_format' });
    assertWrongFields(await put({ options: ['x'] }), { options: 'invalid_format' });
    assertWrongFields(await put({ other: {} }), { other: 'invalid_format' });
    assert.equal((await put({ options: {} })).status, 200);
    const twice = await service.api.put(`${notifications}/${made.id}`, {
      as: alice.credentials,
      body: 'options=a&options[url]=https://example.org/',
      headers: { 'content-type': form },
    });
    const all = ['url', 'to', 'homeserver', 'room', 'token'].map((name) => [`options[${name}]`, 'invalid_format']);
    assertWrongFields(twice, Object.fromEntries(all) as Record<string, string>);
  });

  test('is not needed where nothing is sent', async () => {
    const project = await alice.createProject();
    const put = await service.api.put(`/projects/${project.id}`, { as: alice.credentials });
    assert.equal(put.status, 200);
    const post = await service.api.post('/projects', { as: alice.credentials });
    assertWrongFields(post, { name: 'is_blank', repository_url: 'is_blank' });
    const typed = await service.api.delete(`/projects/${project.id}`, {
      as: alice.credentials,
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(typed.status, 200, typed.text);
  });

  test('is not read from someone who may not send it', async () => {
    const body = { body: '{', headers: { 'content-type': 'application/json' } };
    assertRefused(await service.api.post(path, body), 401, { generic: ['unauthorized'] });
    const stranger = await service.user();
    const answer = await service.api.post(path, { as: stranger.credentials, ...body });
    assertRefused(answer, 404, { generic: ['not_found'] });
  });
});
