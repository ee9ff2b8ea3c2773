import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Answer } from '../support/client.ts';
import { assertRefused, assertWrongFields } from '../support/expect.ts';
import { describeService } from '../support/service.ts';
import { freshName, type User } from '../support/user.ts';

const unreadable = { generic: ['invalid_format'] };
const form = 'application/x-www-form-urlencoded';

describeService('a request body', (service) => {
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
    const options = { repository_url: 'a@b:c', local_branch: 'main', remote_branch: 'ünï' };
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
      [form, 'a[b][c][d][e]=x'],
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

  test('may hold fields that nobody asked for', async () => {
    const answer = await alice.post(path, { name: freshName('suite'), command: 'x', id: '1', hasOwnProperty: 'y' });
    assert.equal(answer.status, 201, answer.text);
    assert.notEqual(answer.record.id, 1n);
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
