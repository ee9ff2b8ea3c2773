import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { findUser } from '../../../src/server/auth/users.ts';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { command } from '../../support/command.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

const password = 'seven otters under a bridge';

describeServiceOnOne('a link to set a password', (service) => {
  const linkFor = async (email: string): Promise<string> => {
    const { db, ids } = service.store;
    const user = await findUser(db.read, email);
    assert.ok(user);
    return (await db.transaction((trx) => insertLink(trx, ids, user.id))).token;
  };
  const path = (token: string): string => `/ui/password?token=${token}`;
  const set = async (token: string, fields: Record<string, string> = {}) => {
    const tab = new Tab(service);
    return tab.submit(await tab.get(path(token)), '/ui/password', { password, again: password, ...fields });
  };

  test('lets somebody who was invited in, once', async () => {
    const alice = await service.user();
    const email = 'invited@example.org';
    const project = await alice.createProject({ name: 'shared with them' });
    await alice.invite(project, { email });
    const token = await linkFor(email);
    for (let look = 0; look < 2; look += 1) {
      const page = await new Tab(service).get(path(token));
      assert.equal(page.status, 200, 'looking uses nothing up');
      assert.ok(page.text.includes(email));
    }
    const done = await set(token);
    assert.deepEqual([done.status, done.headers.location], [303, '/ui/sign-in?password=set']);
    const tab = new Tab(service);
    assert.equal((await tab.signIn({ email, password })).status, 303);
    assert.ok((await tab.get('/ui/')).text.includes('shared with them'));
    assert.equal((await new Tab(service).get(path(token))).status, 404);
    for (const secret of [token, password]) assert.ok(!service.log.includes(secret));
  });

  test('works for one of two who use it at the same time', async () => {
    const user = await service.user();
    const token = await linkFor(user.email);
    const statuses = await Promise.all(
      ['first otters and bridges', 'second otters and bridges'].map(async (one) => {
        return (await set(token, { password: one, again: one })).status;
      }),
    );
    assert.deepEqual(new Set(statuses), new Set([303, 404]));
  });

  test('works no more when it is old, replaced, or the password has changed', async () => {
    const user = await service.user();
    const { db } = service.store;
    const gone = async (token: string): Promise<void> =>
      assert.equal((await new Tab(service).get(path(token))).status, 404);
    const first = await linkFor(user.email);
    const second = await linkFor(user.email);
    await gone(first);
    await db.transaction((trx) =>
      trx
        .updateTable('password_links')
        .set({ expires_at: BigInt(Date.now()) })
        .execute(),
    );
    await gone(second);
    for (const token of ['', 'x', 'hrl_']) await gone(token);
    const third = await linkFor(user.email);
    await service.suspend(user);
    await gone(third);
  });

  test('replaces a password, ends what the old one opened, and refuses a weak one', async () => {
    const user = await service.user();
    const open = new Tab(service);
    await open.signIn(user.credentials);
    const token = await linkFor(user.email);
    for (const [weak, again, said] of [
      ['too short', 'too short', /at least 12/],
      [`x${user.email}x`, `x${user.email}x`, /e-mail address/],
      ['aaaaaaaaaaaaaaaa', 'aaaaaaaaaaaaaaaa', /few different/],
      ['x'.repeat(2000), 'x'.repeat(2000), /at most 1024/],
      [password, `${password}!`, /not the same/],
    ] as const) {
      const answer = await set(token, { password: weak, again });
      assert.equal(answer.status, 403);
      assert.match(answer.text, said);
    }
    assert.equal((await set(token)).status, 303);
    assert.equal((await open.get('/ui/')).status, 303, 'signed out everywhere');
    assert.equal((await new Tab(service).signIn(user.credentials)).status, 401);
    assert.equal((await new Tab(service).signIn({ email: user.email, password })).status, 303);
  });
});

describeServiceOnOne('the account page', (service) => {
  test('changes the password of somebody who knows the old one, and signs them out elsewhere', async () => {
    const user = await service.user();
    const [here, elsewhere] = [new Tab(service), new Tab(service)];
    for (const tab of [here, elsewhere]) await tab.signIn(user.credentials);
    const action = '/ui/account/password';
    const change = async (fields: Record<string, string>) => {
      const all = { current: user.credentials.password, password, again: password, ...fields };
      return here.submit(await here.get('/ui/account'), action, all);
    };
    for (const [fields, said] of [
      [{ current: 'wrong' }, /current password is wrong/],
      [{ again: 'another one than before' }, /not the same/],
      [{ password: 'short', again: 'short' }, /at least 12/],
    ] as const) {
      const refused = await change(fields);
      assert.equal(refused.status, 403);
      assert.match(refused.text, said);
    }
    const before = here.cookies.get('__Host-headrace_session');
    const changed = await change({});
    assert.deepEqual([changed.status, changed.headers.location], [303, '/ui/account?password=set']);
    assert.notEqual(here.cookies.get('__Host-headrace_session'), before);
    assert.equal((await here.get('/ui/account')).status, 200);
    assert.equal((await elsewhere.get('/ui/account')).status, 303);
    assert.equal((await new Tab(service).signIn(user.credentials)).status, 401);
    assert.equal((await new Tab(service).signIn({ email: user.email, password })).status, 303);
    assert.equal((await user.get('/whoami')).status, 200, 'the API key is another matter');
  });
});

describe('admin user password-link', () => {
  onOneDatabase((database) => {
    test('prints the link', async () => {
      const { folder, env: url } = await placeFor(database);
      const admin = (args: string[], env: Record<string, string> = {}) =>
        command(['admin', 'user', ...args, '--data-dir', folder], { ...url, ...env });
      await admin(['create', 'a@example.org']);
      const made = async (env: Record<string, string>) => {
        const { stdout } = await admin(['password-link', 'A@example.org'], env);
        return JSON.parse(stdout.toString()) as { email: string; url: string; expires_at: string };
      };
      const link = await made({ HEADRACE_BASE_URL: 'https://ci.example.org' });
      assert.equal(link.email, 'a@example.org');
      assert.match(link.url, /^https:\/\/ci\.example\.org\/ui\/password\?token=hrl_[\w-]{43}$/);
      const days = (Date.parse(link.expires_at) - Date.now()) / (24 * 3600 * 1000);
      assert.ok(days > 6.9 && days <= 7);
      assert.match((await made({ HEADRACE_PORT: '9443' })).url, /^https:\/\/127\.0\.0\.1:9443\/ui\/password\?/);
      const none = await admin(['password-link', 'b@example.org']);
      assert.deepEqual([none.status, /no account/.test(none.stderr.toString())], [1, true]);
    });
  });
});
