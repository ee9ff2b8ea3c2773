import assert from 'node:assert/strict';
import http from 'node:http';
import { connect } from 'node:tls';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { assertRefused } from '../../support/expect.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { describeServiceOnOne, Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const noSuchApi = { generic: ['api_does_not_exists'] };

describeServiceOnOne('HTTP', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('does not know other paths and methods, with and without credentials', async () => {
    const unknown: [string, string][] = [
      ['GET', '/'],
      ['GET', '/nothing'],
      ['GET', '/projects/1/nothing'],
      ['GET', '/ping/'],
      ['GET', '/Ping'],
      ['POST', '/ping'],
      ['PATCH', '/projects/1'],
      ['DELETE', '/projects'],
      ['POST', '/projects/1'],
      ['OPTIONS', '/projects'],
      ['GET', '/%'],
      ['GET', '/%ff'],
      ['GET', '/projects/../ping/..'],
    ];
    for (const [method, path] of unknown) {
      assertRefused(await service.api.ask(method, path, { as: alice.credentials }), 400, noSuchApi);
      assertRefused(await service.api.ask(method, path), 400, noSuchApi);
    }
  });

  test('says which methods a known path has', async () => {
    const known: [string, string, string | undefined][] = [
      ['POST', '/ping', 'GET, HEAD, OPTIONS'],
      ['DELETE', '/projects', 'GET, HEAD, OPTIONS, POST'],
      ['PATCH', '/projects/1?x=y', 'DELETE, GET, HEAD, OPTIONS, PUT'],
      ['GET', '/hooks/1', 'POST'],
      ['GET', '/nothing', undefined],
    ];
    for (const [method, path, methods] of known) {
      assert.equal((await service.api.ask(method, path)).headers.allow, methods, path);
    }
    const asked = await service.api.ask('OPTIONS', '/projects');
    assert.equal(asked.headers.allow, 'GET, POST, OPTIONS');
  });

  test('gives every answer an identifier of its own, and says what it is', async () => {
    const answers = [
      await service.api.get('/ping'),
      await service.api.get('/whoami'),
      await service.api.get('/nothing'),
      await service.api.get('/%'),
      await service.api.get('/?a=%ff'),
      await service.api.get('/healthz'),
      await service.api.get('/openapi.json'),
      await alice.get('/projects/x'),
      await alice.post('/projects'),
    ];
    const ids = answers.map(({ headers }) => headers['x-request-id']);
    assert.ok(ids.every((id) => typeof id === 'string' && id.length >= 16));
    assert.equal(new Set(ids).size, ids.length);
    for (const { headers } of answers) {
      assert.match(String(headers['content-type']), /^application\/json; charset=utf-8$/);
    }
  });

  test('answers bytes that are not HTTP in its own form', async () => {
    const ca = readFileSync(join(service.folder, 'tls', 'cert.pem'));
    const { port, hostname } = new URL(service.address);
    const socket = connect({ host: hostname, port: Number(port), ca });
    socket.write('this is not HTTP\r\n\r\n');
    let said = '';
    for await (const chunk of socket) said += String(chunk);
    assert.match(said, /^HTTP\/1\.1 400 /);
    assert.match(said, /\r\nx-request-id: [0-9a-f-]{36}\r\n/);
    assert.ok(said.endsWith('\r\n\r\n{"error":{"generic":["api_does_not_exists"]}}'), said);
  });

  test('is not served without TLS', async () => {
    const { port, hostname } = new URL(service.address);
    const { promise, resolve } = Promise.withResolvers<string>();
    http
      .get({ hostname, port, path: '/ping', agent: false }, (answer) => resolve(`answered ${answer.statusCode}`))
      .on('error', (error) => resolve(error.message));
    assert.match(await promise, /socket hang up|ECONNRESET/);
  });

  test('tells a monitor that it is well, and an operator how much it did', async () => {
    assert.equal(((await service.api.get('/healthz')).body as { status: string }).status, 'ok');
    const local = await service.api.get('/metrics');
    assert.match(local.text, /headrace_http_requests_total\{status="200"\} [1-9]/);
    const proxied = await service.api.get('/metrics', { headers: { 'x-forwarded-for': '127.0.0.1' } });
    assertRefused(proxied, 401, { generic: ['unauthorized'] });
  });

  test('never logs credentials', async () => {
    const { api_key: key } = alice.credentials;
    const token = 'a-token-in-the-query';
    await alice.get(`/projects?oauth_token=${token}`);
    await alice.get(`/nothing?oauth_token=${token}`);
    await alice.get(`/%?oauth_token=${token}`);
    await service.api.get(`/whoami?oauth_token=${token}&callback=1`, { headers: { authorization: `Bearer ${token}` } });
    await service.api.post('/projects', { as: alice.credentials, body: `{"oauth_token":"${token}"` });
    assert.match(service.log, /"path":"\/projects"/);
    const basic = Buffer.from(`${alice.email}:${key}`).toString('base64');
    for (const secret of [key, token, basic]) assert.ok(!service.log.includes(secret), `the log holds ${secret}`);
  });
});

describe('a failure inside', () => {
  onOneDatabase((database) => {
    test('is told to the log and not to the caller', async () => {
      const service = new Service(database);
      await service.start();
      const alice = await service.user();
      const project = await alice.createProject();
      await service.store.db.transaction((trx) => trx.schema.dropTable('deploys').execute());
      const answer = await alice.get(`/projects/${project.id}/deploys`);
      assert.deepEqual([answer.status, answer.text], [500, '{"error":{"generic":[]}}']);
      const id = String(answer.headers['x-request-id']);
      const lines = service.log.split('\n').filter((line) => line.includes(id) && line.includes('"err"'));
      assert.equal(lines.length, 1);
      assert.match(lines[0] ?? '', /deploys/);
      const wrapped = await alice.get(`/projects/${project.id}/deploys?callback=f`);
      assert.deepEqual([wrapped.status, wrapped.text], [500, 'f({"error":{"generic":[]}})']);
      assert.equal((await alice.get(`/projects/${project.id}`)).status, 200);
    });
  });
});
