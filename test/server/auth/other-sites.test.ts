import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import { basic, type Answer } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const unauthorized = { generic: ['unauthorized'] };

describeServiceOnOne('a request that another site has a browser make', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const from = (site: string | undefined, path: string, headers: Record<string, string> = {}): Promise<Answer> =>
    service.api.get(path, { headers: { ...(site === undefined ? {} : { 'sec-fetch-site': site }), ...headers } });

  test('is not taken for the person’s own because the browser knows their API key [promise: browser-credentials]', async () => {
    const authorization = basic(alice.credentials);
    const paths = ['/whoami', '/projects'];
    // First what is allowed, so that an answer that is remembered would be given away; then again.
    for (let round = 0; round < 2; round += 1) {
      for (const path of paths) {
        for (const site of [undefined, 'same-origin', 'none']) {
          assert.equal((await from(site, path, { authorization })).status, 200, site);
        }
        for (const site of ['cross-site', 'same-site', 'Cross-Site', 'same-origin, cross-site', '', 'nonsense']) {
          for (const spelled of [authorization, authorization.replace('Basic', 'bAsIc')]) {
            assertRefused(await from(site, path, { authorization: spelled }), 401, unauthorized);
          }
        }
      }
    }
    const wrapped = await from('cross-site', '/whoami?callback=f', { authorization });
    assert.deepEqual([wrapped.status, wrapped.text], [401, 'f({"error":{"generic":["unauthorized"]}})']);
    const form = { name: 'x', repository_url: 'a@b:c' };
    const headers = { 'sec-fetch-site': 'cross-site', authorization };
    assertRefused(await service.api.post('/projects', { form, headers }), 401, unauthorized);
    assert.deepEqual((await alice.get('/projects')).list, []);
  });

  test('is answered when it comes with a token, also where the browser adds the API key of somebody', async () => {
    const bob = await service.user();
    const application = await registerApplication(service, bob);
    const token = await application.token(alice, ['user']);
    for (const site of ['cross-site', 'same-site', 'same-origin', undefined]) {
      assert.equal((await from(site, '/whoami', { authorization: `Bearer ${token}` })).status, 200);
      const wrapped = await from(site, `/whoami?callback=f&oauth_token=${token}`);
      assert.equal(wrapped.text, `f({"response":{"email":"${alice.email}"}})`);
    }
    const authorization = basic(bob.credentials);
    const both = await from('cross-site', `/whoami?callback=f&oauth_token=${token}`, { authorization });
    assert.equal(both.text, `f({"response":{"email":"${alice.email}"}})`);
    const wrong = await from('cross-site', '/whoami?oauth_token=hrt_x', { authorization });
    assertRefused(wrong, 401, unauthorized);
  });

  test('does not make the browser ask for the API key, as no request of a browser does', async () => {
    for (const site of ['cross-site', 'same-site', 'same-origin', 'none']) {
      for (const path of ['/whoami', '/whoami?callback=f', '/metrics?x', '/runner/connection']) {
        const { headers } = await from(site, path, { 'x-forwarded-for': '192.0.2.1' });
        assert.doesNotMatch(String(headers['www-authenticate']), /basic/i, `${site} ${path}`);
      }
      const form = { grant_type: 'authorization_code', code: 'x', client_id: '1' };
      const token = await service.api.post('/oauth2/access_token', { form, headers: { 'sec-fetch-site': site } });
      assert.deepEqual([token.status, token.headers['www-authenticate']], [401, undefined]);
    }
    // A program that waits to be asked is asked.
    assert.match(String((await from(undefined, '/whoami')).headers['www-authenticate']), /^Basic .*, Bearer /);
  });
});
