import assert from 'node:assert/strict';
import { mkdirSync, statSync } from 'node:fs';
import https from 'node:https';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { basic, type Credentials } from '../../support/client.ts';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { headrace, serve } from '../../support/program.ts';

/** Standard output is one JSON object on one line. */
function object(stdout: Buffer): Record<string, unknown> {
  const text = stdout.toString();
  assert.match(text, /^\{.*\}\n$/);
  return JSON.parse(text) as Record<string, unknown>;
}

describe('the program', () => {
  onOneDatabase((database) => {
    const start = async () => {
      const { folder, env } = await placeFor(database);
      return { folder: join(folder, 'data'), env };
    };

    test('introduces the first user once, and keeps its folder to itself', async () => {
      const { folder, env } = await start();
      mkdirSync(folder, { mode: 0o755 });
      const first = await serve(database, folder, env);
      assert.match(first.address, /^https:\/\/127\.0\.0\.1:\d+$/);
      assert.equal(first.output.match(/^listening on /gm)?.length, 1);
      const shown = (label: string): string => new RegExp(`^ *${label} +(\\S+)$`, 'm').exec(first.output)?.[1] ?? '';
      const admin = { email: shown('e-mail'), api_key: shown('API key') };
      assert.notEqual(shown('password'), '');
      assert.deepEqual((await first.api.get('/whoami', { as: admin })).response, { email: admin.email });
      assert.equal(statSync(folder).mode & 0o777, 0o700);
      assert.equal(statSync(join(folder, 'master.key')).mode & 0o777, 0o600);
      assert.equal(statSync(join(folder, 'tls', 'key.pem')).mode & 0o777, 0o600);
      first.api.close();
      first.process.kill('SIGTERM');
      assert.deepEqual(await first.exited, [0, null]);

      const second = await serve(database, folder, env);
      assert.equal(second.output, `listening on ${second.address}\n`);
      assert.equal((await second.api.get('/whoami', { as: admin })).status, 200);
      second.api.close();
      second.process.kill('SIGINT');
      assert.deepEqual(await second.exited, [0, null]);
    });

    test('looks after accounts while it serves and while it does not', async () => {
      const { folder, env } = await start();
      const admin = (...args: string[]) => headrace(['admin', 'user', ...args, '--data-dir', folder], env);
      const alice = object((await admin('create', 'Alice@Example.org')).stdout) as unknown as Credentials;
      assert.deepEqual(Object.keys(alice), ['email', 'password', 'api_key']);
      assert.equal(alice.email, 'alice@example.org');

      const server = await serve(database, folder, env);
      assert.doesNotMatch(server.output, /password/);
      const status = async (as: Credentials): Promise<number> => (await server.api.get('/projects', { as })).status;
      const create = { as: alice, form: { name: 'x', repository_url: 'a@b:c' } };
      assert.equal(await status(alice), 200);
      const state = { email: 'alice@example.org', kind: 'user', suspended: false, billing: 'ok', operator: true };
      assert.deepEqual(object((await admin('suspend', alice.email)).stdout), { ...state, suspended: true });
      assert.equal(await status(alice), 401);
      assert.deepEqual(object((await admin('resume', alice.email)).stdout), state);
      assert.equal(await status(alice), 200);
      const overdue = { ...state, billing: 'overdue' };
      assert.deepEqual(object((await admin('billing', alice.email, 'overdue')).stdout), overdue);
      assert.equal((await server.api.post('/projects', create)).status, 402);
      object((await admin('billing', alice.email, 'ok')).stdout);
      assert.equal((await server.api.post('/projects', create)).status, 201);

      const helper = object((await admin('create', 'bob@example.org', '--collaborator')).stdout);
      assert.equal(await status(helper as unknown as Credentials), 200);
      const fresh = object((await admin('reset', alice.email)).stdout) as unknown as Credentials;
      assert.deepEqual([await status(alice), await status(fresh)], [401, 200]);
      server.api.close();
      server.process.kill('SIGTERM');
      await server.exited;

      const taken = await admin('create', 'alice@example.org');
      assert.deepEqual([taken.status, taken.stdout.toString()], [1, '']);
      assert.match(taken.stderr.toString(), /already_exists/);
      for (const wrong of [
        ['suspend', 'nobody@example.org'],
        ['billing', alice.email, 'rich'],
        ['create', 'nobody'],
      ]) {
        const { status: exit, stdout, stderr } = await admin(...wrong);
        assert.deepEqual([exit, stdout.toString()], [1, '']);
        assert.match(stderr.toString(), /^headrace: /);
      }
    });

    test('answers what it is being asked before it stops', async () => {
      const { folder, env } = await start();
      const created = await headrace(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder], env);
      const alice = object(created.stdout) as unknown as Credentials;
      const server = await serve(database, folder, env);
      const ca = readFileSync(join(folder, 'tls', 'cert.pem'));
      const { hostname, port } = new URL(server.address);
      const body = 'name=x&repository_url=a@b:c';
      const headers = {
        authorization: basic(alice),
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': body.length,
        expect: '100-continue',
      };
      const answered = Promise.withResolvers<number | undefined>();
      const request = https.request(
        { hostname, port, ca, method: 'POST', path: '/projects', headers, agent: false },
        (answer) => answered.resolve(answer.resume().statusCode),
      );
      request.on('error', answered.reject);
      const begun = Promise.withResolvers<void>();
      request.on('continue', begun.resolve);
      request.flushHeaders();
      // The server has the head of the request and waits for its body when it is told to stop.
      await begun.promise;
      server.process.kill('SIGTERM');
      await refusesConnections(server.address, ca);
      request.end(body);
      assert.equal(await answered.promise, 201);
      assert.deepEqual(await server.exited, [0, null]);
      server.api.close();
    });
  });

  test('exits with 2 and its usage when it does not know a command', async () => {
    for (const args of [
      ['nonsense'],
      ['admin'],
      ['admin', 'user', 'create'],
      ['serve', '--nonsense'],
      ['migrate', 'x'],
    ]) {
      const { status, stdout, stderr } = await headrace(args);
      assert.deepEqual([status, stdout.toString()], [2, ''], args.join(' '));
      assert.match(stderr.toString(), /usage:/);
    }
    const help = await headrace(['--help']);
    assert.equal(help.status, 0);
    assert.match(help.stdout.toString(), /headrace help server/);
  });
});

/** Comes back once the server has stopped listening, which it does first of all. */
async function refusesConnections(address: string, ca: Buffer): Promise<void> {
  for (;;) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const probe = https.get(`${address}/ping`, { ca, agent: false }, (answer) => {
      answer.resume();
      resolve(true);
    });
    probe.on('error', () => resolve(false));
    if (!(await promise)) return;
  }
}
