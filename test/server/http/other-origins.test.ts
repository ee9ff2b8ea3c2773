import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { before, test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import { TestBrowser } from '../../support/browser.ts';
import { basic, type Answer } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const origin = 'https://app.example.org';

describeWithRunnerOnOne('a page of another site', (service, runner, database) => {
  const browser = new TestBrowser(database);
  let alice: User;
  let token: string;
  before(async () => {
    alice = await service.user();
    token = await (await registerApplication(service, alice)).token(alice, ['user', 'projects', 'commits']);
  });

  const allowed = ({ headers }: Answer): unknown => headers['access-control-allow-origin'];

  test('may read what it asks with a token, errors too, and nothing that came with a cookie or Basic [promise: browser-credentials]', async () => {
    const ask = (path: string, headers: Record<string, string>): Promise<Answer> =>
      service.api.get(path, { headers: { origin, ...headers } });
    const bearer = { authorization: `Bearer ${token}` };
    const { id } = await alice.createProject();
    for (let round = 0; round < 3; round += 1) {
      // The second time the answer is known already.
      const answer = await ask(`/projects/${id}`, bearer);
      assert.deepEqual([answer.status, allowed(answer)], [200, '*']);
      assert.match(String(answer.headers['access-control-expose-headers']), /\blink\b/);
    }
    for (const path of ['/projects/1', '/projects/x', '/projects?callback=1', '/dependencies']) {
      const answer = await ask(path, bearer);
      assert.ok(answer.status >= 400);
      assert.equal(allowed(answer), '*', path);
    }
    assert.equal(allowed(await ask(`/whoami?oauth_token=${token}`, {})), '*');
    assert.equal(allowed(await ask('/whoami', { authorization: 'Bearer hrt_wrong' })), '*');
    const own = basic(alice.credentials);
    const closed = [
      await ask('/ping', {}),
      await ask('/whoami', {}),
      await ask('/whoami', { authorization: own }),
      await ask('/whoami', { authorization: own, 'sec-fetch-site': 'cross-site' }),
      await ask(`/whoami?oauth_token=${token}`, { authorization: own, 'sec-fetch-site': 'cross-site' }),
      await ask('/whoami', { ...bearer, cookie: 'session=x' }),
      await ask('/ui/sign-in', bearer),
      await service.api.get('/whoami', { headers: bearer }),
    ];
    for (const answer of closed) assert.equal(allowed(answer), undefined);
    for (const answer of closed) assert.equal(answer.headers['access-control-allow-credentials'], undefined);
  });

  test('is told what it may send before it does, and an OPTIONS that asks nothing is unknown', async () => {
    const preflight = (path: string, method = 'POST'): Promise<Answer> =>
      service.api.ask('OPTIONS', path, { headers: { origin, 'access-control-request-method': method } });
    const answer = await preflight('/projects');
    assert.deepEqual([answer.status, answer.text, allowed(answer)], [204, '', '*']);
    assert.equal(answer.headers['access-control-allow-methods'], 'GET, POST');
    assert.match(
      String(answer.headers['access-control-allow-headers']),
      /authorization.*content-type.*idempotency-key/,
    );
    assert.equal(answer.headers['access-control-allow-credentials'], undefined);
    assert.equal((await preflight('/dependencies/1/archive')).headers['access-control-allow-methods'], 'POST');
    const unknown = { generic: ['api_does_not_exists'] };
    assertRefused(await service.api.ask('OPTIONS', '/projects'), 400, unknown);
    for (const path of ['/nothing', '/ui/sign-in', '/oauth2/access_token', '/runner/connection', '/metrics']) {
      const refused = await preflight(path);
      assert.deepEqual([refused.status, allowed(refused)], [400, undefined], path);
    }
  });

  test(
    'can do so in a real browser, follow a build there, and stop when it has everything',
    { timeout: longestWait },
    async () => {
      const other = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<p>elsewhere'));
      await once(other.listen(0, '127.0.0.1'), 'listening');
      database.afterwards(() => void other.close());
      const { path, task } = await runningBuild(alice, runner);
      const page = await browser.open();
      await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
      const url = service.address;
      const asked = await page.evaluate(
        async ({ url, token, own }) => {
          const read = async (path: string, init: RequestInit): Promise<string> => {
            try {
              const answer = await fetch(url + path, init);
              return `${answer.status} ${await answer.text()}`;
            } catch (error) {
              return (error as Error).name;
            }
          };
          const bearer = { authorization: `Bearer ${token}` };
          const body = JSON.stringify({ name: 'from elsewhere' });
          return [
            await read('/whoami', { headers: bearer }),
            await read('/projects', {
              method: 'POST',
              headers: { ...bearer, 'content-type': 'application/json' },
              body,
            }),
            await read('/whoami', { headers: { authorization: own } }),
            await read(`/whoami?oauth_token=${token}`, { credentials: 'include' }),
          ];
        },
        { url, token, own: basic(alice.credentials) },
      );
      assert.deepEqual(asked, [
        `200 {"response":{"email":"${alice.email}"}}`,
        '403 {"error":{"repository_url":["is_blank"]}}',
        'TypeError',
        'TypeError',
      ]);
      const following = page.evaluate(
        async ({ url }) => {
          const source = new EventSource(url);
          const told: string[] = [];
          for (const type of ['state', 'log', 'end']) {
            source.addEventListener(type, (event) => told.push(`${type} ${String((event as MessageEvent).data)}`));
          }
          // It comes back by itself after the end, until it is told that there is nothing more.
          await new Promise<void>((resolve) => {
            source.addEventListener('error', () => source.readyState === EventSource.CLOSED && resolve());
          });
          return told;
        },
        { url: `${url}${path}/firehose?oauth_token=${token}` },
      );
      await task.exit(0);
      const told = await following;
      assert.deepEqual(told.slice(-2), ['state {"state":"passed"}', 'end {}']);
      assert.equal(told.filter((one) => one === 'end {}').length, 1);
    },
  );
});
