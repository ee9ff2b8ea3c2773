import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { pkcePair, registerApplication, type Application } from '../../support/applications.ts';
import type { Answer } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const oob = 'urn:ietf:wg:oauth:2.0:oob';

describeServiceOnOne('the application of the command line', (service) => {
  let alice: User;
  let tab: Tab;
  let other: Application;
  before(async () => {
    alice = await service.user();
    other = await registerApplication(service, await service.user());
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  const { verifier, challenge } = pkcePair();
  const ask = (fields: Record<string, string>): Promise<Answer> => {
    const all = { client_id: 'headrace-cli', scope: 'user projects', state: 's', ...fields };
    return tab.get(`/oauth2/authorize?${new URLSearchParams(all).toString()}`);
  };
  const proven = { code_challenge: challenge, code_challenge_method: 'S256' };
  const exchange = (code: string, redirect: string, fields: Record<string, string> = {}): Promise<Answer> =>
    service.api.post('/oauth2/access_token', {
      form: {
        grant_type: 'authorization_code',
        client_id: 'headrace-cli',
        code,
        redirect_uri: redirect,
        code_verifier: verifier,
        ...fields,
      },
    });
  const revoke = (form: Record<string, string>): Promise<Answer> => service.api.post('/oauth2/revoke', { form });
  const works = async (token: string): Promise<boolean> =>
    (await service.api.get('/whoami', { headers: { authorization: `Bearer ${token}` } })).status === 200;

  /** A token as `headrace login` gets it. */
  async function signedIn(redirect = 'http://127.0.0.1:54321/'): Promise<string> {
    const page = await ask({ redirect_uri: redirect, ...proven });
    assert.equal(page.status, 200, page.text);
    const answer = await tab.submit(page, '/oauth2/authorize', { decision: 'allow' });
    const code =
      redirect === oob
        ? /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(answer.text)?.[1]
        : new URL(answer.headers.location ?? '').searchParams.get('code');
    const token = await exchange(code ?? '', redirect);
    assert.equal(token.status, 200, token.text);
    return String(token.body.access_token);
  }

  test('is there without anybody registering it, on any port of the loopback address and out of band', async () => {
    for (const redirect of ['http://127.0.0.1:1/', 'http://127.0.0.1:65535/callback', 'http://127.0.0.1:8080', oob])
      assert.ok(await works(await signedIn(redirect)), redirect);
    const page = await ask({ redirect_uri: oob, ...proven });
    assert.match(page.text, /headrace-cli/);
    assert.match(page.text, /Go on only if you have just run headrace login yourself/);
  });

  test('has no other addresses, and no way around PKCE', async () => {
    for (const redirect of [
      'http://127.0.0.1/',
      'https://127.0.0.1:8080/',
      'http://127.0.0.1:8080@example.org/',
      'http://127.0.0.1:8080.example.org/',
      'http://127.0.0.1:99999/',
      'http://127.0.0.2:8080/',
      'http://localhost:8080/',
      'http://127.0.0.1:8080/?next=https://example.org',
      'https://example.org/',
    ]) {
      const refused = await ask({ redirect_uri: redirect, ...proven });
      assert.equal(refused.status, 400, redirect);
      assert.match(refused.text, /that it has not registered/, redirect);
    }
    const loopback = 'http://127.0.0.1:8080/';
    assert.match((await ask({ redirect_uri: loopback })).text, /must send a code_challenge/);
    assert.match((await ask({ redirect_uri: loopback, response_type: 'token' })).text, /code flow with PKCE/);
    const page = await tab.submit(await ask({ redirect_uri: oob, ...proven }), '/oauth2/authorize', {
      decision: 'allow',
    });
    const [, code = ''] = /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(page.text) ?? [];
    assert.equal((await exchange(code, oob, { code_verifier: pkcePair().verifier })).body.error, 'invalid_grant');
    assert.equal((await exchange(code, oob, { client_secret: 'x' })).body.error, 'invalid_client');
    assert.equal((await exchange(code, oob)).status, 200);
  });

  test('is seen and taken back on the applications page like any other', async () => {
    const token = await signedIn();
    const page = await tab.get('/ui/applications');
    assert.match(page.text, /<h3[^>]*>headrace-cli<\/h3>\s*<p class="aside">\s*Comes with this server\./);
    await tab.submit(page, '/ui/applications', { do: 'revoke' });
    assert.ok(!(await works(token)));
    assert.equal((await tab.get('/ui/applications/100')).status, 404);
  });

  test('gives its token back', async () => {
    const token = await signedIn();
    const mine = { client_id: 'headrace-cli', token };
    assert.equal((await revoke({ ...mine, token_type_hint: 'access_token' })).status, 200);
    assert.ok(!(await works(token)));
    // RFC 7009 section 2.2: what is unknown, is revoked.
    assert.equal((await revoke(mine)).status, 200);
    assert.equal((await revoke({ ...mine, token: 'nonsense', token_type_hint: 'unknown' })).status, 200);
    const entries = await service.store.db.read
      .selectFrom('audit_entries')
      .selectAll()
      .where('action', '=', 'token.revoked')
      .execute();
    assert.deepEqual(
      entries.map(({ actor_email, application, details }) => [actor_email, application, details]),
      [[alice.email, 'headrace-cli', '{"reason":"given_back"}']],
    );
  });

  test('and others theirs; nobody another’s', async () => {
    const [hers, its] = [await signedIn(), await other.token(alice, ['user'])];
    const credentials = { client_id: other.clientId, client_secret: other.secret ?? '' };
    for (const [form, status, error] of [
      [{ client_id: 'headrace-cli', token: its }, 400, 'invalid_grant'],
      [{ ...credentials, token: hers }, 400, 'invalid_grant'],
      [{ client_id: other.clientId, token: its }, 401, 'invalid_client'],
      [{ ...credentials, client_secret: 'x', token: its }, 401, 'invalid_client'],
      [{ token: its }, 401, 'invalid_client'],
      [{ client_id: 'headrace-cli' }, 400, 'invalid_request'],
    ] as const) {
      const refused = await revoke(form);
      assert.deepEqual([refused.status, refused.body.error], [status, error]);
    }
    assert.deepEqual([await works(hers), await works(its)], [true, true]);
    assert.equal((await revoke({ ...credentials, token: its })).status, 200);
    assert.deepEqual([await works(hers), await works(its)], [true, false]);
  });
});
