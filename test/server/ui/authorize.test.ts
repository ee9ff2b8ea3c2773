import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { callbackAddress, pkcePair, registerApplication, type Application } from '../../support/applications.ts';
import type { Answer } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const path = '/oauth2/authorize';
const oob = 'urn:ietf:wg:oauth:2.0:oob';
type Fields = Record<string, string>;

const address = (fields: Fields): string => `${path}?${new URLSearchParams(fields).toString()}`;

/** Where a browser is sent, with what is in the query or the fragment. */
function landing(answer: Answer): { to: string; query: Fields; fragment: Fields } {
  assert.equal(answer.status, 302, answer.text);
  const url = new URL(answer.headers.location ?? '');
  const [to = ''] = url.href.split(/[?#]/);
  const fragment = Object.fromEntries(new URLSearchParams(url.hash.slice(1)));
  return { to, query: Object.fromEntries(url.searchParams), fragment };
}

describeServiceOnOne('the authorize page', (service) => {
  let alice: User;
  let tab: Tab;
  let application: Application;
  let installed: Application;
  before(async () => {
    alice = await service.user();
    const owner = await service.user();
    application = await registerApplication(service, owner, { redirectUris: [callbackAddress, oob] });
    installed = await registerApplication(service, owner, { isPublic: true });
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  const asked = (fields: Fields = {}): Fields => ({
    client_id: application.clientId,
    redirect_uri: callbackAddress,
    scope: 'projects,commits',
    state: 'a b&c=d"<é',
    ...fields,
  });
  const decide = async (fields: Fields, decision = 'allow'): Promise<Answer> =>
    tab.submit(await tab.get(address(fields)), path, { decision });
  const tokenOf = async (code: string | undefined, fields: Record<string, string | undefined> = {}) =>
    (await application.exchange({ code: code ?? '', ...fields })).body;

  test('asks in plain words, and gives a code for what was allowed', async () => {
    const page = await tab.get(address(asked()));
    assert.equal(page.status, 200);
    for (const text of [
      'Build lamp',
      alice.email,
      'app.example.org',
      'See, create, change and delete your projects: their repository, which decides what runs',
      'See commits',
    ]) {
      assert.ok(page.text.includes(text), text);
    }
    assert.ok(!page.text.includes('deploy'), 'nothing else is asked for');
    const { to, query, fragment } = landing(await tab.submit(page, path, { decision: 'allow' }));
    assert.equal(to, callbackAddress);
    assert.deepEqual(Object.keys(query), ['code', 'state', 'iss']);
    assert.equal(query.iss, service.address);
    assert.equal(query.state, 'a b&c=d"<é');
    assert.deepEqual(fragment, {});
    const { access_token: token, scope } = await tokenOf(query.code);
    assert.equal(scope, 'projects commits');
    assert.deepEqual((await service.api.get(`/whoami?oauth_token=${String(token)}`)).response, { email: alice.email });
  });

  test('takes scopes with commas or spaces, each once, and the least when none is named', async () => {
    for (const [scope, granted] of [
      ['projects commits', 'projects commits'],
      ['projects, commits,projects', 'projects commits'],
      ['build_requests_create shells', 'build_requests_create shells'],
      ['', 'user'],
    ] as const) {
      const { query } = landing(await decide(asked({ scope })));
      assert.equal((await tokenOf(query.code)).scope, granted);
    }
  });

  test('tells the application that the person said no', async () => {
    for (const decision of ['deny', 'x', '']) {
      const { to, query } = landing(await decide(asked(), decision));
      assert.deepEqual(
        [to, query.error, query.state, query.code],
        [callbackAddress, 'access_denied', 'a b&c=d"<é', undefined],
      );
    }
    const implicit = landing(await decide(asked({ response_type: 'token' }), 'deny'));
    assert.deepEqual([implicit.query, implicit.fragment.error], [{}, 'access_denied']);
  });

  test('gives a token in the fragment in the implicit flow', async () => {
    const { to, query, fragment } = landing(await decide(asked({ response_type: 'token' })));
    assert.deepEqual([to, query], [callbackAddress, {}]);
    const { access_token: token, ...rest } = fragment;
    assert.deepEqual(rest, {
      token_type: 'bearer',
      scope: 'projects commits',
      state: 'a b&c=d"<é',
      iss: service.address,
    });
    assert.equal((await service.api.get(`/projects?oauth_token=${token}`)).status, 200);
  });

  test('shows the code to be copied where the application is not on the web', async () => {
    const page = await decide(asked({ redirect_uri: oob }));
    assert.equal(page.status, 200);
    const [, code] = /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(page.text) ?? [];
    assert.ok((await tokenOf(code, { redirect_uri: oob })).access_token);
    const denied = await decide(asked({ redirect_uri: oob }), 'deny');
    assert.deepEqual([denied.status, /hrc_/.test(denied.text)], [200, false]);
  });

  test('keeps a query that the address has, and needs no address where there is one alone', async () => {
    const redirectUri = 'https://app.example.org/cb?tenant=7';
    const single = await registerApplication(service, alice, { redirectUris: [redirectUri] });
    const { query } = landing(await decide({ client_id: single.clientId, state: 's' }));
    assert.deepEqual([query.tenant, query.state], ['7', 's']);
    assert.equal((await single.exchange({ code: query.code, redirect_uri: undefined })).status, 200);
    const named = landing(await decide({ client_id: single.clientId, redirect_uri: redirectUri }));
    assert.deepEqual(Object.keys(named.query), ['tenant', 'code', 'iss'], 'no state where none was sent');
  });

  test('sends nobody anywhere before it knows the application and the address', async () => {
    const evil = 'https://evil.example/';
    const addresses = [
      evil,
      `${callbackAddress}/`,
      `${callbackAddress}?x`,
      `${callbackAddress}#x`,
      `${callbackAddress}/../evil`,
      'https://app.example.org/',
      'https://APP.example.org/callback',
      'https://app.example.org:443/callback',
      'http://app.example.org/callback',
      'https://app.example.org.evil.example/callback',
      'https://app.example.org@evil.example/callback',
      'https://evil.example/https://app.example.org/callback',
      'javascript:alert(1)//https://app.example.org/callback',
      ` ${callbackAddress}`,
      `${callbackAddress}\r\nx: y`,
    ];
    const requests = [
      ...addresses.map((redirectUri) => asked({ redirect_uri: redirectUri })),
      ...['1', 'x', '', `${application.clientId} `, '-1'].map((clientId) => asked({ client_id: clientId })),
      asked({ client_id: installed.clientId, redirect_uri: oob }),
      asked({ redirect_uri: '' }),
    ];
    for (const visitor of [tab, new Tab(service)]) {
      for (const fields of requests) {
        const answer = await visitor.get(address({ ...fields, response_type: 'nonsense' }));
        assert.equal(answer.status, 400, JSON.stringify(fields));
        assert.equal(answer.headers.location, undefined);
        assert.match(String(answer.headers['content-type']), /^text\/html/);
      }
      const twice = await visitor.get(`${address(asked())}&redirect_uri=${encodeURIComponent(evil)}`);
      assert.equal(twice.status, 400);
      const listed = await visitor.get(
        `${address(asked({ redirect_uri: '' }))}&redirect_uri[]=${encodeURIComponent(evil)}`,
      );
      assert.equal(listed.status, 400);
    }
    const page = await tab.get(address(asked()));
    const injected = await tab.submit(page, path, { decision: 'allow', redirect_uri: evil });
    assert.deepEqual([injected.status, injected.headers.location], [400, undefined]);
  });

  test('tells the person what is wrong with what was asked, and the application once they go back', async () => {
    const { challenge } = pkcePair();
    const cases: [Fields, string][] = [
      [{ response_type: 'id_token' }, 'unsupported_response_type'],
      [{ response_type: 'code token' }, 'unsupported_response_type'],
      [{ scope: 'projects,everything' }, 'invalid_scope'],
      [{ scope: 'constructor' }, 'invalid_scope'],
      [{ code_challenge: challenge }, 'invalid_request'],
      [{ code_challenge: challenge, code_challenge_method: 'plain' }, 'invalid_request'],
      [{ code_challenge: 'short', code_challenge_method: 'S256' }, 'invalid_request'],
      [{ code_challenge_method: 'S256' }, 'invalid_request'],
      [{ client_id: installed.clientId }, 'invalid_request'],
    ];
    const goBack = async (url: string, decision = 'return'): Promise<ReturnType<typeof landing>> => {
      const page = await tab.get(url);
      assert.deepEqual([page.status, page.headers.location], [400, undefined], url);
      assert.ok(page.text.includes('You have allowed nothing') && page.text.includes('Build lamp'), page.text);
      assert.match(String(page.headers['content-security-policy']), /form-action 'self' https:\/\/app\.example\.org;/);
      return landing(await tab.submit(page, path, { decision }));
    };
    for (const [fields, error] of cases) {
      const { to, query, fragment } = await goBack(address(asked(fields)));
      assert.deepEqual([to, query.error, query.state], [callbackAddress, error, 'a b&c=d"<é'], JSON.stringify(fields));
      assert.deepEqual(fragment, {});
    }
    const allowing = await goBack(address(asked({ scope: 'everything' })), 'allow');
    assert.deepEqual([allowing.query.error, allowing.query.code], ['invalid_scope', undefined]);
    for (const wrong of ['scope=deploys', 'scope[]=deploys', 'state=x', 'code_challenge=x&code_challenge=y']) {
      const { query } = await goBack(`${address(asked())}&${wrong}`);
      assert.equal(query.error, 'invalid_request', wrong);
    }
    const bare = await goBack(address({ ...asked(), scope: 'x', state: '' }));
    assert.deepEqual(Object.keys(bare.query), ['error', 'error_description', 'iss']);
    const inFragment = await goBack(address(asked({ response_type: 'token', scope: 'x' })));
    assert.deepEqual([inFragment.query, inFragment.fragment.error], [{}, 'invalid_scope']);
    const implicit = asked({ client_id: installed.clientId, response_type: 'token' });
    assert.equal((await goBack(address(implicit))).fragment.error, 'unauthorized_client');
    const shown = await tab.get(address(asked({ redirect_uri: oob, response_type: 'token' })));
    assert.deepEqual([shown.status, shown.headers.location], [400, undefined]);
  });

  test('sends nobody to an application who has not signed in and said so [promise: oauth-consent]', async () => {
    for (const url of [address(asked({ response_type: 'bogus' })), `${address(asked())}&scope=x&scope=y`]) {
      const stranger = new Tab(service);
      const away = await stranger.get(url);
      assert.deepEqual([away.status, away.headers.location?.startsWith('/ui/sign-in?')], [303, true]);
      // Neither does a form without a session, nor one that another site sends.
      const key = /name="form_key" value="([^"]+)"/.exec((await stranger.get('/ui/sign-in')).text)?.[1] ?? '';
      const posted = await stranger.post(path, { ...asked({ response_type: 'bogus' }), form_key: key });
      assert.deepEqual([posted.status, posted.headers.location?.startsWith('/ui/sign-in?')], [303, true]);
      const forged = await tab.post(path, { ...asked({ response_type: 'bogus' }), form_key: key });
      assert.deepEqual([forged.status, forged.headers.location], [403, undefined]);
      // What was wrong is still wrong after signing in.
      const form = await stranger.get(away.headers.location ?? '');
      const back = await stranger.submit(form, '/ui/sign-in', { ...alice.credentials });
      const page = await stranger.get(back.headers.location ?? '');
      assert.deepEqual([page.status, page.headers.location], [400, undefined]);
    }
  });

  test('binds the code to the challenge, which nobody can take away', async () => {
    const { verifier, challenge } = pkcePair();
    const request = asked({ client_id: installed.clientId, code_challenge: challenge, code_challenge_method: 'S256' });
    const { query } = landing(await decide(request));
    assert.equal((await installed.exchange({ code: query.code })).status, 400);
    assert.equal((await installed.exchange({ code: query.code, code_verifier: verifier })).status, 200);
    // An attacker on the way removes the challenge from the request, or puts a stolen code into another's answer.
    const page = await tab.get(address(request));
    const stripped = landing(
      await tab.submit(page, path, { decision: 'allow', code_challenge: undefined, code_challenge_method: undefined }),
    );
    assert.deepEqual([stripped.query.error, stripped.query.code], ['invalid_request', undefined]);
    const confidential = landing(await decide(asked()));
    const injected = await application.exchange({ code: confidential.query.code, code_verifier: verifier });
    assert.deepEqual([injected.status, injected.body.error], [400, 'invalid_grant']);
  });

  test('asks nobody who is not signed in, and goes on after signing in', async () => {
    const stranger = new Tab(service);
    const away = await stranger.get(address(asked()));
    assert.equal(away.status, 303);
    const form = await stranger.get(away.headers.location ?? '');
    const back = await stranger.submit(form, '/ui/sign-in', { ...alice.credentials });
    const page = await stranger.get(back.headers.location ?? '');
    const { query } = landing(await stranger.submit(page, path, { decision: 'allow' }));
    assert.equal(query.state, 'a b&c=d"<é');

    // The session ended while the page was open.
    const late = new Tab(service);
    await late.signIn(alice.credentials);
    const open = await late.get(address(asked()));
    const key = /name="form_key" value="([^"]+)"/.exec(open.text)?.[1] ?? '';
    late.cookies.clear();
    assert.equal((await late.post(path, { ...asked(), decision: 'allow', form_key: key })).status, 403);
    const fresh = /name="form_key" value="([^"]+)"/.exec((await late.get('/ui/sign-in')).text)?.[1] ?? '';
    const again = await late.post(path, { ...asked(), decision: 'allow', form_key: fresh });
    assert.deepEqual([again.status, again.headers.location?.startsWith('/ui/sign-in?')], [303, true]);
  });

  test('takes nobody’s word for the person but a form of its own [promise: oauth-consent]', async () => {
    const codes = async (): Promise<number> =>
      (await service.store.db.read.selectFrom('oauth_codes').select('id').execute()).length;
    const before_ = await codes();
    const mallory = new Tab(service);
    await mallory.signIn((await service.user()).credentials);
    const theirs = /name="form_key" value="([^"]+)"/.exec((await mallory.get(address(asked()))).text)?.[1] ?? '';
    for (const key of ['', theirs]) {
      const answer = await tab.post(path, { ...asked(), decision: 'allow', form_key: key });
      assert.deepEqual([answer.status, answer.headers.location], [403, undefined]);
    }
    const page = await tab.get(address(asked()));
    for (const headers of [{ 'sec-fetch-site': 'cross-site', origin: 'null' }, { origin: 'https://evil.example' }]) {
      const answer = await tab.submit(page, path, { decision: 'allow' }, headers);
      assert.equal(answer.status, 403);
    }
    assert.equal((await tab.get(`${address(asked())}&decision=allow`)).status, 200, 'looking is not allowing');
    assert.equal(await codes(), before_);
  });

  test('cannot be framed, runs nothing, tells nobody its address, and posts to nobody else', async () => {
    const page = await tab.get(address(asked()));
    const policy =
      "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'%; base-uri 'none'; frame-ancestors 'none'";
    const { headers } = page;
    assert.equal(headers['content-security-policy'], policy.replace('%', ' https://app.example.org'));
    assert.deepEqual(
      [
        headers['x-frame-options'],
        headers['referrer-policy'],
        headers['x-content-type-options'],
        headers['cache-control'],
      ],
      ['DENY', 'no-referrer', 'nosniff', 'no-store'],
    );
    const copied = await tab.get(address(asked({ redirect_uri: oob })));
    assert.equal(copied.headers['content-security-policy'], policy.replace('%', ''));
    assert.doesNotMatch(page.text, /<script|javascript:|style=|\son\w+=/i);
    const redirected = await tab.submit(page, path, { decision: 'allow' });
    assert.deepEqual(
      [redirected.headers['referrer-policy'], redirected.headers['cache-control']],
      ['no-referrer', 'no-store'],
    );
  });

  test('shows what others wrote as text', async () => {
    const name = '</h1><script>alert("1")</script>\' onload=x &amp;';
    const rude = await registerApplication(service, alice, { name });
    const page = await tab.get(address({ client_id: rude.clientId, state: '"><script>x</script>' }));
    assert.equal(page.status, 200);
    assert.ok(!page.text.includes('<script'));
    assert.ok(
      page.text.includes('&lt;/h1&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39; onload=x &amp;amp;'),
    );
  });

  test('writes neither codes nor tokens nor states nor passwords to the log', async () => {
    const { query } = landing(await decide(asked({ state: 'state-to-look-for' })));
    const { fragment } = landing(await decide(asked({ response_type: 'token' })));
    assert.ok(service.log.includes(path));
    for (const secret of [query.code, fragment.access_token, 'state-to-look-for', alice.credentials.password]) {
      assert.ok(secret !== undefined && secret.length > 10);
      assert.ok(!service.log.includes(secret));
    }
    for (const cookie of tab.cookies.values()) assert.ok(!service.log.includes(cookie));
  });
});
