import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { revokeTokensOf } from '../../../src/server/auth/tokens.ts';
import { findUser, updateUser } from '../../../src/server/auth/users.ts';
import { deleteClient, findClient } from '../../../src/server/oauth/clients.ts';
import { registerApplication, type Application } from '../../support/applications.ts';
import { basic } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const unauthorized = { generic: ['unauthorized'] };

describeServiceOnOne('a token', (service) => {
  let alice: User;
  let application: Application;
  before(async () => {
    alice = await service.user();
    application = await registerApplication(service, await service.user());
  });

  const whoami = (token: string) => service.api.get(`/whoami?oauth_token=${token}`);
  const bearer = (path: string, token: string) =>
    service.api.get(path, { headers: { authorization: `Bearer ${token}` } });

  test('says whose it is, in the query and in the header', async () => {
    const token = await application.token(alice, ['suites']);
    assert.deepEqual((await whoami(token)).response, { email: alice.email });
    assert.deepEqual((await bearer('/whoami', token)).response, { email: alice.email });
    const wrapped = await service.api.get(`/whoami?callback=f&oauth_token=${token}`);
    assert.equal(wrapped.text, `f({"response":{"email":"${alice.email}"}})`);
  });

  test('is refused when it is not the whole of one, or sent twice', async () => {
    const token = await application.token(alice, ['user']);
    for (const wrong of ['', 'x', token.slice(1), `${token}x`, token.toUpperCase(), `${token}%20`, `${token}%00`]) {
      assertRefused(await whoami(wrong), 401, unauthorized);
    }
    assertRefused(await whoami(`${token}&oauth_token=${token}`), 401, unauthorized);
    assertRefused(await service.api.get(`/whoami?oauth_token[]=${token}`), 401, unauthorized);
    const refused = await bearer('/whoami', `${token}x`);
    assert.match(String(refused.headers['www-authenticate']), /Bearer realm=/);
    assert.equal((await whoami(token)).status, 200);
  });

  test('in the query counts only where no header says otherwise', async () => {
    const bob = await service.user();
    const [hers, his] = [await application.token(alice, ['user']), await application.token(bob, ['user'])];
    const ask = (authorization: string, token: string) =>
      service.api.get(`/whoami?oauth_token=${token}`, { headers: { authorization } });
    for (const header of [`Bearer ${his}`, basic(bob.credentials)]) {
      for (const token of [hers, 'x']) assert.deepEqual((await ask(header, token)).response, { email: bob.email });
    }
    for (const header of ['Bearer x', 'Bearer', 'Basic', basic({ ...bob.credentials, api_key: 'x' })]) {
      assertRefused(await ask(header, hers), 401, unauthorized);
    }
  });

  test('is not answered with what another token was answered', async () => {
    const bob = await service.user();
    const [hers, his] = [await application.token(alice, ['projects']), await application.token(bob, ['projects'])];
    const project = await alice.createProject();
    const path = (token: string): string => `/projects/${project.id}?oauth_token=${token}`;
    // Nothing is written in between, so what was found out the first time is still in memory the second time.
    for (const token of [hers, his]) await whoami(token);
    for (let round = 0; round < 3; round += 1) {
      assert.equal((await service.api.get(path(hers))).record.id, project.id);
      assertRefused(await service.api.get(path(his)), 404, { generic: ['not_found'] });
      assertRefused(await service.api.get(path('x')), 401, unauthorized);
      assertRefused(await service.api.get(`/projects/${project.id}`), 401, unauthorized);
      assert.deepEqual((await whoami(hers)).response, { email: alice.email });
      assert.deepEqual((await whoami(his)).response, { email: bob.email });
    }
  });

  test('stops at once when it is revoked, when its application goes, and when its person is suspended', async () => {
    const { db } = service.store;
    const owner = await service.user();
    const user = await findUser(db.read, alice.email);
    assert.ok(user);
    const doomed = await registerApplication(service, owner);
    const [first, second] = [await doomed.token(alice, ['user']), await application.token(alice, ['user'])];
    for (const token of [first, first, second, second]) assert.equal((await whoami(token)).status, 200);
    await db.transaction((trx) => revokeTokensOf(trx, user.id, application.id));
    assertRefused(await whoami(second), 401, unauthorized);
    assert.equal((await whoami(first)).status, 200);
    const client = await findClient(db.read, doomed.clientId);
    assert.ok(client);
    await db.transaction((trx) => deleteClient(trx, client));
    assertRefused(await whoami(first), 401, unauthorized);

    const carol = await service.user();
    const token = await application.token(carol, ['projects']);
    const project = await carol.createProject();
    const hers = `/projects/${project.id}?oauth_token=${token}`;
    assert.equal((await service.api.get(hers)).status, 200);
    await service.stopPaying(carol);
    assertRefused(await service.api.get(hers), 402, { generic: ['payment_required'] });
    await service.suspend(carol);
    assertRefused(await service.api.get(hers), 401, { generic: ['account_suspended'] });
    await db.transaction((trx) => updateUser(trx, carol.email, { suspended: 0, billing: 'ok' }));
    assert.equal((await service.api.get(hers)).status, 200);
  });

  test('is noted as used, and not with each request', async () => {
    const token = await application.token(alice, ['user']);
    const lastUsed = async (): Promise<bigint | null | undefined> => {
      const rows = await service.store.db.read.selectFrom('access_tokens').selectAll().orderBy('id').execute();
      return rows.at(-1)?.last_used_at;
    };
    assert.equal(await lastUsed(), null);
    await whoami(token);
    const first = await lastUsed();
    assert.ok(Math.abs(Number(first) - Date.now()) < 600_000);
    for (let round = 0; round < 3; round += 1) await whoami(token);
    assert.equal(await lastUsed(), first);
    const longAgo = BigInt(Date.now() - 2 * 60 * 60 * 1000);
    await service.store.db.transaction((trx) =>
      trx
        .updateTable('access_tokens')
        .set({ last_used_at: longAgo })
        .where('last_used_at', '=', first ?? null)
        .execute(),
    );
    await whoami(token);
    assert.ok(Number(await lastUsed()) > Number(longAgo));
  });

  test('stands neither in the log, nor in links, nor in errors', async () => {
    const token = await application.token(alice, ['projects', 'commits']);
    const project = await alice.createProject();
    const seen: string[] = [];
    const look = async (path: string): Promise<void> => {
      const answer = await service.api.get(path);
      seen.push(JSON.stringify(answer.headers), answer.text);
    };
    for (const path of [
      `/projects/${project.id}/commits?limit=1&before=5&oauth_token=${token}`,
      `/projects/${project.id}/commits?limit=x&oauth_token=${token}`,
      `/projects/${project.id}/suites?oauth_token=${token}`,
      `/nothing?oauth_token=${token}`,
      `/projects/%?oauth_token=${token}`,
      `/whoami?oauth_token=${token}&callback=%3C`,
    ]) {
      await look(path);
    }
    await service.api.get('/whoami', { headers: { authorization: `Bearer ${token}` } });
    assert.ok(service.log.includes('answered'));
    assert.ok(!service.log.includes(token));
    assert.ok(!service.log.includes('oauth_token'));
    for (const text of seen) assert.ok(!text.includes(token), text);
  });
});
