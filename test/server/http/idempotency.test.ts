import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { freshName, type User } from '../../support/user.ts';

describeServiceOnOne('an Idempotency-Key', (service) => {
  let alice: User;
  let path: string;
  before(async () => {
    alice = await service.user();
    path = `/projects/${(await alice.createProject()).id}/notifications`;
  });

  const form = { notifiable_type: 'build', name: 'webhook', 'options[url]': 'https://example.org/' };
  const send = (key: string, fields: Record<string, string> = form, who = alice) =>
    who.post(path, fields, { 'idempotency-key': key });

  test('gives the first answer again and creates once', async () => {
    const first = await send('again');
    const second = await send('again');
    assert.equal(first.status, 201);
    assert.deepEqual([second.status, second.text], [201, first.text]);
    const stored = (await alice.get(path)).list.filter(({ id }) => id === first.record.id);
    assert.equal(stored.length, 1);
    assert.notEqual((await send('another')).record.id, first.record.id);
  });

  test('holds when ten requests come at once', async () => {
    const before = (await alice.get(path)).list.length;
    const answers = await Promise.all(Array.from({ length: 10 }, () => send('at-once')));
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
    assert.equal(answers[0]?.status, 201);
    assert.equal((await alice.get(path)).list.length, before + 1);
  });

  test('is not for another request', async () => {
    await send('taken');
    const other = await send('taken', { ...form, notifiable_type: 'dependency' });
    assertRefused(other, 403, { idempotency_key: ['already_exists'] });
    const elsewhere = await alice.post(
      '/projects',
      { name: freshName('project'), repository_url: 'a@b:c' },
      { 'idempotency-key': 'taken' },
    );
    assertRefused(elsewhere, 403, { idempotency_key: ['already_exists'] });
  });

  test('belongs to the caller who sent it', async () => {
    const bob = await service.user();
    const { id } = (await alice.get('/projects')).list[0] ?? { id: 0n };
    await alice.post(`/projects/${id}/collaborators`, { email: bob.email });
    const [hers, his] = [await send('shared'), await send('shared', form, bob)];
    assert.notEqual(hers.record.id, his.record.id);
  });

  test('may be used again after a request that failed', async () => {
    assertWrongFields(await send('failed', { ...form, name: '' }), { name: 'is_blank' });
    assert.equal((await send('failed')).status, 201);
  });

  test('is refused when it is none', async () => {
    for (const key of ['', 'a'.repeat(256), 'two words']) {
      assertWrongFields(await send(key), { idempotency_key: 'invalid_format' });
    }
  });

  test('keeps the answer encrypted', async () => {
    const { secret } = (await send('secret')).record;
    const rows = await service.store.db.read.selectFrom('idempotency_keys').select('answer').execute();
    assert.ok(rows.length > 0);
    for (const { answer } of rows)
      assert.ok(!Buffer.from(answer, 'base64').includes(String(secret)) && !answer.includes(String(secret)));
  });
});
