import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import * as oauth from 'oauth4webapi';
import type { Page } from 'playwright-core';
import { AuthorizationCode } from 'simple-oauth2';
import { registerApplication } from '../../support/applications.ts';
import { fillInSignIn, TestBrowser } from '../../support/browser.ts';
import { startReceiver, type Receiver } from '../../support/web-application.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const oob = 'urn:ietf:wg:oauth:2.0:oob';

describeServiceOnOne('in a real browser', (service, database) => {
  const browser = new TestBrowser(database);
  let receiver: Receiver;
  let callback: string;
  let alice: User;
  before(async () => {
    receiver = await startReceiver();
    database.afterwards(() => receiver.close());
    callback = `${receiver.address}/callback`;
    alice = await service.user();
    // The libraries speak to the service themselves, and trust its certificate like any other.
    const own = readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
    const usual = getCACertificates();
    setDefaultCACertificates([...usual, own]);
    // The services of other files in this process have the same certificate.
    database.afterwards(() => setDefaultCACertificates(usual));
  });

  const authorizeUrl = (fields: Record<string, string>): string =>
    `${service.address}/oauth2/authorize?${new URLSearchParams(fields).toString()}`;
  const whoami = async (token: unknown): Promise<unknown> =>
    (await service.api.get(`/whoami?oauth_token=${String(token)}`)).response;
  /** Everything that the browser complains about, such as a policy that was broken. */
  const complaintsOf = (page: Page): string[] => {
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    return complaints;
  };
  /** Allowed by somebody who has to sign in first; answers where the browser ended. */
  const allowIn = async (page: Page, url: string): Promise<URL> => {
    await page.goto(url);
    await fillInSignIn(page, alice.credentials);
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.waitForURL(`${callback}**`);
    return new URL(page.url());
  };

  test('what somebody slips into a page does not run, also as an answer of the API [promise: browser-credentials]', async () => {
    const page = await browser.signIn(service.address, alice.credentials);
    const complaints = complaintsOf(page);
    const ran: string[] = [];
    page.on('dialog', (dialog) => {
      ran.push(dialog.message());
      void dialog.dismiss();
    });
    const slipped = [
      '<script src="/ping?callback=alert"></script>',
      '<script type="module" src="/ping?callback=alert"></script>',
      '<script nonce="" src="/ping?callback=alert"></script>',
      '<script>alert(1)</script>',
      '<script type="module">import "/ping?callback=alert"</script>',
    ];
    await page.route('**/ui/account?*', async (route) => {
      const response = await route.fetch();
      const body = (await response.text()).replace('</main>', `${slipped.join('')}</main>`);
      await route.fulfill({ response, body });
    });
    await page.goto(`${service.address}/ui/account?done=1`);
    // The page's own scripts still run, with what they import.
    await page.waitForURL('**/ui/account');
    assert.deepEqual(ran, []);
    assert.ok(complaints.length >= slipped.length && complaints.every((text) => /Content Security Policy/.test(text)));
  });

  test('a public application gets its token with oauth4webapi and PKCE', async () => {
    const application = await registerApplication(service, alice, { isPublic: true, redirectUris: [callback] });
    const issuer: oauth.AuthorizationServer = {
      issuer: service.address,
      authorization_endpoint: `${service.address}/oauth2/authorize`,
      token_endpoint: `${service.address}/oauth2/access_token`,
    };
    const client: oauth.Client = { client_id: application.clientId };
    const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()];
    const url = authorizeUrl({
      client_id: client.client_id,
      redirect_uri: callback,
      response_type: 'code',
      scope: 'user projects',
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    const page = await browser.open();
    const complaints = complaintsOf(page);
    const landed = await allowIn(page, url);
    const answer = oauth.validateAuthResponse(issuer, client, landed, state);
    const response = await oauth.authorizationCodeGrantRequest(
      issuer,
      client,
      oauth.None(),
      answer,
      callback,
      verifier,
    );
    const tokens = await oauth.processAuthorizationCodeResponse(issuer, client, response);
    assert.deepEqual([tokens.token_type, tokens.scope, tokens.expires_in], ['bearer', 'user projects', undefined]);
    const resource = new URL(`${service.address}/whoami`);
    const who = await oauth.protectedResourceRequest(tokens.access_token, 'GET', resource);
    assert.deepEqual(await who.json(), { response: { email: alice.email } });
    assert.deepEqual(complaints, []);
  });

  test('an application with a secret gets its token with simple-oauth2, by header and by body', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [callback] });
    for (const authorizationMethod of ['header', 'body'] as const) {
      const client = new AuthorizationCode({
        client: { id: application.clientId, secret: application.secret ?? '' },
        auth: { tokenHost: service.address, tokenPath: '/oauth2/access_token', authorizePath: '/oauth2/authorize' },
        options: { authorizationMethod, scopeSeparator: ',' },
      });
      const page = await browser.open();
      const scope = ['projects', 'build_requests'];
      const landed = await allowIn(page, client.authorizeURL({ redirect_uri: callback, scope, state: 's/=+' }));
      assert.equal(landed.searchParams.get('state'), 's/=+');
      const code = landed.searchParams.get('code') ?? '';
      const { token } = await client.getToken({ code, redirect_uri: callback });
      assert.equal(token.scope, 'projects build_requests');
      assert.deepEqual(await whoami(token.access_token), { email: alice.email });
    }
  });

  test('a page elsewhere gets a token in the fragment, and reads the API with jQuery’s JSON-P', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [callback] });
    const project = await alice.createProject({ name: 'read from elsewhere' });
    const jquery = readFileSync(join(import.meta.dirname, '../../../node_modules/jquery/dist/jquery.js'), 'utf8');
    receiver.serve('/jquery.js', 'application/javascript', jquery);
    receiver.serve(
      '/callback',
      'text/html',
      `<!doctype html><title>An application</title><pre id="out"></pre><script src="/jquery.js"></script><script>
        const token = new URLSearchParams(location.hash.slice(1)).get('access_token');
        $.ajax({ url: '${service.address}/projects/${project.id}?oauth_token=' + token, dataType: 'jsonp' })
          .done((answer) => $('#out').text(answer.response.name + ' ' + answer.response.id_str))
          .fail((_, status) => $('#out').text('failed ' + status));
      </script>`,
    );
    const page = await browser.open();
    const fields = { client_id: application.clientId, redirect_uri: callback, scope: 'projects' };
    await allowIn(page, authorizeUrl({ ...fields, response_type: 'token' }));
    const out = page.locator('#out:not(:empty)');
    assert.equal(await out.textContent(), `read from elsewhere ${project.id}`);
    receiver.serve('/callback', 'text/html', '<h1>The application</h1>');
  });

  test('neither the application nor anybody else is told more than the answer', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [callback] });
    receiver.received.length = 0;
    const page = await browser.open();
    const fields = { client_id: application.clientId, redirect_uri: callback, state: 'very-own-state' };
    const landed = await allowIn(page, authorizeUrl(fields));
    const [arrived] = receiver.received;
    assert.equal(arrived?.url.pathname, '/callback');
    assert.deepEqual([arrived.headers.referer, arrived.headers.cookie], [undefined, undefined]);
    const cookies = await page.context().cookies(service.address);
    assert.deepEqual(
      cookies.map(({ name, httpOnly, secure, sameSite }) => ({ name, httpOnly, secure, sameSite })),
      [{ name: '__Host-headrace_session', httpOnly: true, secure: true, sameSite: 'Lax' }],
    );
    const code = landed.searchParams.get('code') ?? '-';
    assert.ok(!service.log.includes(code) && !service.log.includes('very-own-state'));
  });

  test('the code can be copied where the application has no address', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [oob] });
    const page = await browser.open({ javaScriptEnabled: false });
    await page.goto(authorizeUrl({ client_id: application.clientId, redirect_uri: oob, scope: 'user' }));
    await fillInSignIn(page, alice.credentials);
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.getByRole('heading', { name: 'Copy this code into Build lamp' }).waitFor();
    const code = (await page.locator('#code').textContent()) ?? '';
    const { body } = await application.exchange({ code, redirect_uri: oob });
    assert.deepEqual(await whoami(body.access_token), { email: alice.email });
  });

  test('a form on another site cannot allow anything, nor a frame show the question [promise: browser-credentials]', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [callback] });
    const fields = { client_id: application.clientId, redirect_uri: callback };
    const inputs = Object.entries({ ...fields, decision: 'allow' }).map(
      ([name, value]) => `<input name="${name}" value="${value}">`,
    );
    receiver.serve(
      '/evil',
      'text/html',
      `<form method="post" action="${service.address}/oauth2/authorize">${inputs.join('')}<button>Win</button></form>
       <iframe src="${authorizeUrl(fields)}"></iframe>`,
    );
    const page = await browser.open();
    await page.goto(`${service.address}/ui/sign-in`);
    await fillInSignIn(page, alice.credentials);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    await page.goto(`${receiver.address}/evil`);
    const framed = await page.frames()[1]?.content();
    assert.ok(!framed?.includes('Build lamp'), framed);
    await page.getByRole('button', { name: 'Win' }).click();
    await page.getByRole('heading', { name: 'This form is out of date' }).waitFor();
    assert.equal(new URL(page.url()).origin, service.address);
  });

  test('everything can be done with the keyboard alone, and every field has its name', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [callback] });
    const page = await browser.open();
    await page.goto(authorizeUrl({ client_id: application.clientId, redirect_uri: callback }));
    await page.keyboard.press('Tab');
    assert.equal(await page.locator(':focus').textContent(), 'Skip to the content');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.type(alice.email);
    await page.keyboard.press('Tab');
    await page.keyboard.type(alice.credentials.password);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Allow' }).waitFor();
    for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press('Tab');
    assert.equal(await page.locator(':focus').textContent(), 'Allow');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${callback}**`);
    await page.goto(`${service.address}/ui/applications/new`);
    const main = await page.getByRole('main').ariaSnapshot();
    for (const field of ['textbox "Name"', 'textbox "Redirect addresses"', 'button "Register"']) {
      assert.ok(main.includes(field), main);
    }
    assert.equal(await page.getByRole('navigation', { name: 'Site' }).count(), 1);
  });

  test('pages fit a narrow phone, and the dark scheme is dark', async () => {
    const application = await registerApplication(service, alice, { redirectUris: [oob], name: 'W'.repeat(100) });
    await application.token(alice, ['suites']);
    const page = await browser.open({ viewport: { width: 320, height: 640 }, colorScheme: 'dark' });
    await page.goto(authorizeUrl({ client_id: application.clientId }));
    const fits = async (): Promise<void> => {
      assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth')) <= 320, page.url());
    };
    await fits();
    await fillInSignIn(page, alice.credentials);
    await page.getByRole('button', { name: 'Allow' }).waitFor();
    await fits();
    for (const path of [
      '/ui/',
      '/ui/applications',
      '/ui/applications/new',
      `/ui/applications/${application.clientId}`,
    ]) {
      await page.goto(`${service.address}${path}`);
      await fits();
    }
    assert.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), 'rgb(16, 22, 28)');
  });
});
