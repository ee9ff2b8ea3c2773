import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import type { Answer } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeServiceOnOne('the applications page', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  const page = (): Promise<Answer> => tab.get('/ui/applications');
  const shown = (answer: Answer, id: string): string =>
    new RegExp(`<code[^>]*id="${id}"[^>]*>([^<]+)</code>`).exec(answer.text)?.[1] ?? '';
  const exchange = async (clientId: string, secret: string): Promise<unknown> => {
    const form = { grant_type: 'authorization_code', code: 'x', client_id: clientId, client_secret: secret };
    return (await service.api.post('/oauth2/access_token', { form })).body.error;
  };

  test('re-creates the API key, and shows it once', async () => {
    const answer = await tab.submit(await page(), '/ui/applications', { do: 'key' });
    const key = shown(answer, 'api-key');
    assert.match(key, /^hrk_/);
    const as = { email: alice.email, api_key: key };
    assert.equal((await service.api.get('/whoami', { as })).status, 200);
    assert.equal((await alice.get('/whoami')).status, 401, 'the old one is over');
    assert.ok(!(await page()).text.includes(key));
    assert.ok(!service.log.includes(key));
  });

  test('makes an API key for somebody who has none', async () => {
    const bob = await service.user('collaborator');
    const { db } = service.store;
    await db.transaction((trx) =>
      trx.updateTable('users').set({ api_key_hash: null }).where('email', '=', bob.email).execute(),
    );
    const his = new Tab(service);
    await his.signIn(bob.credentials);
    const before_ = await his.get('/ui/applications');
    assert.match(before_.text, /You have none yet/);
    const key = shown(await his.submit(before_, '/ui/applications', { do: 'key' }), 'api-key');
    assert.equal((await service.api.get('/whoami', { as: { email: bob.email, api_key: key } })).status, 200);
  });

  test('registers an application, changes it, gives it a new secret and deletes it', async () => {
    const form = await tab.get('/ui/applications/new');
    const redirects = 'https://lamp.example/cb\r\n\r\n  urn:ietf:wg:oauth:2.0:oob ';
    const made = await tab.submit(form, '/ui/applications/new', {
      name: ' Lamp ',
      'redirect_uris[]': redirects,
    });
    const [id, secret] = [shown(made, 'client-id'), shown(made, 'client-secret')];
    assert.equal(await exchange(id, secret), 'invalid_grant', 'the secret is right, the code is not');
    const path = `/ui/applications/${id}`;
    const later = await tab.get(path);
    assert.ok(!later.text.includes(secret));
    assert.ok(later.text.includes('https://lamp.example/cb\nurn:ietf:wg:oauth:2.0:oob'));
    assert.ok((await page()).text.includes(`href="${path}"`));

    const change = { do: 'save', name: 'Better lamp', 'redirect_uris[]': 'https://lamp.example/other' };
    assert.equal((await tab.submit(later, path, change)).status, 303);
    const changed = await tab.get(path);
    assert.ok(changed.text.includes('<h1>Better lamp</h1>'));
    const asked = (address: string) =>
      tab.get(`/oauth2/authorize?client_id=${id}&redirect_uri=${encodeURIComponent(address)}`);
    assert.deepEqual(
      [(await asked('https://lamp.example/cb')).status, (await asked('https://lamp.example/other')).status],
      [400, 200],
    );

    const renewed = shown(await tab.submit(changed, path, { do: 'secret' }), 'client-secret');
    assert.deepEqual([await exchange(id, secret), await exchange(id, renewed)], ['invalid_client', 'invalid_grant']);

    await tab.submit(changed, path, { do: 'delete' });
    assert.equal((await tab.get(path)).status, 404);
    assert.equal(await exchange(id, renewed), 'invalid_client');
  });

  test('registers a public application, which has no secret', async () => {
    const form = await tab.get('/ui/applications/new');
    const fields = { name: 'Phone', 'redirect_uris[]': 'org.example.phone:/cb', public: 'true' };
    const made = await tab.submit(form, '/ui/applications/new', fields);
    assert.equal(shown(made, 'client-secret'), '');
    const id = shown(made, 'client-id');
    assert.equal((await tab.post(`/ui/applications/${id}`, { do: 'secret' })).status, 403);
    const key = /name="form_key" value="([^"]+)"/.exec(made.text)?.[1] ?? '';
    assert.equal((await tab.post(`/ui/applications/${id}`, { do: 'secret', form_key: key })).status, 404);
  });

  test('says what is wrong beside the field, and keeps what was typed', async () => {
    const form = await tab.get('/ui/applications/new');
    const wrong: [Record<string, string>, RegExp][] = [
      [{ name: '', 'redirect_uris[]': 'https://a.example/' }, /id="register-name-mistake"/],
      [{ name: 'x'.repeat(101), 'redirect_uris[]': 'https://a.example/' }, /id="register-name-mistake"/],
      [{ name: 'Turn \u202e around', 'redirect_uris[]': 'https://a.example/' }, /id="register-name-mistake"/],
      [{ name: 'Lamp', 'redirect_uris[]': ' ' }, /id="register-redirect_uris-mistake"/],
      [
        { name: 'Lamp', 'redirect_uris[]': 'https://ok.example/ javascript:alert(1)' },
        /id="register-redirect_uris-mistake"/,
      ],
      [{ name: 'Lamp', 'redirect_uris[]': 'https://ok.example/#part' }, /id="register-redirect_uris-mistake"/],
    ];
    for (const [fields, said] of wrong) {
      const answer = await tab.submit(form, '/ui/applications/new', fields);
      assert.equal(answer.status, 403);
      assert.match(answer.text, said);
      assert.match(answer.text, /aria-invalid="true"/);
      if (fields.name === 'Lamp') assert.match(answer.text, /value="Lamp"/);
    }
  });

  test('does not show what belongs to somebody else, nor let it be changed', async () => {
    const other = await registerApplication(service, await service.user(), { name: 'Somebody else’s' });
    const path = `/ui/applications/${other.clientId}`;
    const key = /name="form_key" value="([^"]+)"/.exec((await page()).text)?.[1] ?? '';
    assert.equal((await tab.get(path)).status, 404);
    for (const action of ['save', 'secret', 'delete']) {
      const fields = { form_key: key, do: action, name: 'Mine', 'redirect_uris[]': 'https://evil.example/' };
      assert.equal((await tab.post(path, fields)).status, 404);
    }
    assert.equal(await exchange(other.clientId, other.secret ?? ''), 'invalid_grant');
    assert.ok(!(await page()).text.includes('Somebody else'));
    assert.equal((await new Tab(service).get(path)).status, 303);
  });

  test('lists what a person allowed, and revokes it at once, for them alone', async () => {
    const bob = await service.user();
    const application = await registerApplication(service, bob, { name: 'Status board' });
    const [first, second] = [await application.token(alice, ['projects']), await application.token(alice, ['deploys'])];
    const his = await application.token(bob, ['projects']);
    const waiting = await application.code(alice);
    const status = async (token: string): Promise<number> =>
      (await service.api.get(`/whoami?oauth_token=${token}`)).status;
    assert.match((await page()).text, /Never used/);
    assert.equal(await status(first), 200);
    const listed = await page();
    assert.equal(listed.text.split('>Status board</h3>').length, 2, 'once, however many tokens it has');
    for (const text of [bob.email, 'change and delete your projects', 'deploy commits', 'Last used around']) {
      assert.ok(listed.text.includes(text), text);
    }
    await tab.submit(listed, '/ui/applications', { do: 'revoke' });
    assert.ok(!(await page()).text.includes('Status board'));
    assert.deepEqual([await status(first), await status(second), await status(his)], [401, 401, 200]);
    assert.equal((await application.exchange({ code: waiting })).body.error, 'invalid_grant');
  });
});
