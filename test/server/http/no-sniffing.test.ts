import assert from 'node:assert/strict';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { connect } from 'node:tls';
import { routes } from '../../../src/server/resources/index.ts';
import { allRoutes } from '../../../src/server/ui/index.ts';
import type { Answer, Asking } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

const header = 'x-content-type-options';

/** A browser that guesses what an answer is may run what somebody put into a log, a file or an error. */
describeServiceOnOne('no browser guesses what an answer is', (service) => {
  let alice: User;
  let world: World;
  before(async () => {
    alice = await service.user();
    world = await buildWorld(service, alice);
  });

  const check = ({ status, headers }: Answer, what: string): void =>
    assert.equal(headers[header], 'nosniff', `${what}: ${status}`);
  const asks = async (method: string, path: string, asking: Asking = {}): Promise<void> =>
    check(await service.api.ask(method, path, asking), `${method} ${path}`);

  test('on any route, admitted or not, before another site and in JSON-P [promise: browser-credentials]', async () => {
    const last = routes.toSorted((a, b) => b.path.length - a.path.length);
    // It ends the key with which the others are asked.
    const other = await service.user();
    await asks('POST', '/api_key', { as: other.credentials });
    for (const { method, path } of last.filter((route) => route.method !== 'DELETE' && route.path !== '/api_key')) {
      await asks(method, world.path(path));
      await asks(method, world.path(path), { as: alice.credentials });
      const headers = { origin: 'https://other.example.org', 'access-control-request-method': method };
      await asks('OPTIONS', world.path(path), { headers });
    }
    for (const path of ['/whoami', '/whoami', '/whoami', '/ping?callback=f', '/whoami?callback=f&suppress_status=true'])
      await asks('GET', path, { as: alice.credentials });
    for (const { path } of last.filter((route) => route.method === 'DELETE'))
      await asks('DELETE', world.path(path), { as: alice.credentials });
  });

  test('on any page, and on what pages load', async () => {
    const own = await buildWorld(service, alice);
    const [tab, stranger] = [new Tab(service), new Tab(service)];
    check(await tab.signIn(alice.credentials), 'signing in');
    const loaded = new Set<string>();
    for (const { method, path } of allRoutes) {
      const address = own.path(path.replace(':client_id', '1'));
      for (const one of [stranger, tab]) {
        const answer = await (method === 'GET' ? one.get(address) : one.post(address, {}));
        check(answer, `${method} ${address}`);
        for (const [, file = ''] of answer.text.matchAll(/(?:src|href)="(\/ui\/[\w-]+\.[0-9a-f]{16}\.\w+)"/g))
          loaded.add(file);
      }
    }
    assert.ok(loaded.size > 2, 'the files of pages are found');
    for (const file of loaded) check(await tab.get(file), file);
    for (const { path } of routes.filter(({ method }) => method === 'GET'))
      check(await tab.get(`/ui/data${own.path(path)}`), path);
  });

  test('where there is no such thing, and where a request cannot be read', async () => {
    const paths = [
      '/',
      '/nothing',
      '/%',
      '/a?%',
      '/?callback=1',
      '/openapi.json',
      '/healthz',
      '/metrics',
      '/ui/nothing',
    ];
    for (const path of [...paths, '/oauth2/access_token', '/oauth2/revoke', '/runner/connection', '/hooks/1', '/ui']) {
      for (const method of ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS']) await asks(method, path);
      await asks('GET', path, { headers: { accept: 'text/html' } });
    }
    await asks('POST', '/projects', { as: alice.credentials, json: '{' });
    const badge = (await buildWorld(service, alice)).path('/projects/:project_id/badge.svg');
    const { headers } = await service.api.get(badge);
    const kept = await service.api.get(badge, { headers: { 'if-none-match': String(headers.etag) } });
    assert.equal(kept.status, 304);
    check(kept, 'a badge that is known');
    const words = [
      'nonsense\r\n\r\n',
      'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET /ping HTTP/1.1\r\n\r\n',
      'POST /projects HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n',
      `GET /${'y'.repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
    ];
    for (const word of words)
      assert.match(await said(word), /^HTTP\/1\.1 [^]*\r\nx-content-type-options: nosniff\r\n/i);
  });

  /** The beginning of what comes back for these bytes. */
  async function said(word: string): Promise<string> {
    const { port, hostname: host } = new URL(service.address);
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    socket.write(word);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    return answer.toString('latin1');
  }
});
