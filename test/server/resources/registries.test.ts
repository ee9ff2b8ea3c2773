import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertWrongFields } from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

describeService('registries', (service) => {
  let alice: User;
  before(async () => void (alice = await service.user()));
  const password = 'password-nightingale';

  test('are added, listed and deleted; the password is shown to nobody', async () => {
    const sent = { host: 'Registry.Example.org:5000', username: 'puller', password };
    const made = await alice.post('/registries', sent);
    assert.equal(made.status, 201, made.text);
    const { id } = made.record;
    const shown = { id, id_str: String(id), host: 'registry.example.org:5000', username: 'puller' };
    assert.deepEqual({ ...made.record }, shown);
    const listed = await alice.get('/registries');
    assert.deepEqual({ ...listed.list[0] }, shown);
    const { password: stored } = await service.store.db.read
      .selectFrom('registries')
      .select('password')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    for (const text of [made.text, listed.text, stored]) assert.doesNotMatch(text, /nightingale/);

    assertWrongFields(await alice.post('/registries', sent), { host: 'already_exists' });
    const other = await service.user();
    assert.equal((await other.post('/registries', sent)).status, 201, 'every account has its own');
    assert.equal((await other.delete(`/registries/${id}`)).status, 404);
    assert.deepEqual((await alice.delete(`/registries/${id}`)).record, { destroyed: true });
    assert.deepEqual((await alice.get('/registries')).list, []);
  });

  test('have a host and maybe a port, and nothing else', async () => {
    const rest = { username: 'u', password };
    for (const host of [
      'https://r.example.org',
      'r.example.org/team',
      'r example',
      '-r',
      'r:0',
      'r:99999',
      'a..b',
      'r\n',
    ])
      assertWrongFields(await alice.post('/registries', { host, ...rest }), { host: 'invalid_format' });
    assertWrongFields(await alice.post('/registries', { host: ' ', username: 'a:b', password: '' }), {
      host: 'is_blank',
      username: 'invalid_format',
      password: 'is_blank',
    });
    const hub = await alice.post('/registries', { host: 'index.docker.io', ...rest });
    assert.equal(hub.record.host, 'docker.io', 'one registry has one name');
    assertWrongFields(await alice.post('/registries', { host: 'docker.io', ...rest }), { host: 'already_exists' });
  });
});
