import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Credentials } from '../../../src/server/auth/users.ts';
import { connectionPath, protocolHeader, protocolNumber } from '../../../src/shared/protocol/index.ts';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { command } from '../../support/command.ts';
import { serve } from '../../support/program.ts';

describe('admin runner', () => {
  onOneDatabase((database) => {
    test('looks after runners while the server runs and while it does not', async () => {
      const { folder, env } = await placeFor(database);
      const admin = async (...args: string[]) => {
        const { status, stdout, stderr } = await command(['admin', ...args, '--data-dir', folder], env);
        return { status, said: stdout.toString(), error: stderr.toString() };
      };
      const runner = async (...args: string[]): Promise<Record<string, string>> => {
        const { status, said, error } = await admin('runner', ...args);
        assert.equal(status, 0, error);
        assert.match(said, /^[{[].*[\]}]\n$/);
        return JSON.parse(said) as Record<string, string>;
      };
      const fails = async (...args: string[]): Promise<string> => {
        const { status, said, error } = await admin('runner', ...args);
        assert.deepEqual([status, said], [1, '']);
        return error;
      };
      const list = async () => (await runner('list')) as unknown as Record<string, unknown>[];

      for (const email of ['alice@example.org', 'bob@example.org']) await admin('user', 'create', email);
      assert.deepEqual(await list(), []);
      const free = await runner('create', 'free');
      assert.deepEqual(Object.keys(free), ['name', 'token']);
      const accounts = ['--account', 'Alice@example.org', '--account', 'bob@example.org'];
      const bound = await runner('create', 'bound', ...accounts);
      assert.match(await fails('create', 'lost', '--account', 'nobody@example.org'), /there is no account nobody@/);
      assert.match(await fails('create', 'free'), /already_exists/);
      assert.match(await fails('create', 'a b'), /letters/);
      assert.match(await fails('revoke', 'nobody'), /there is no runner nobody/);
      assert.match(await fails('rotate', 'nobody'), /there is no runner nobody/);

      const server = await serve(database, folder, env);
      const knock = async (token: string | undefined): Promise<number> => {
        const headers = { authorization: `Bearer ${token}`, [protocolHeader]: protocolNumber };
        // Who does not ask for a WebSocket is told so, once it is known who it is.
        return (await server.api.get(connectionPath, { headers })).status;
      };
      assert.deepEqual(await Promise.all([free, bound].map(({ token }) => knock(token))), [426, 426]);
      assert.deepEqual(await runner('revoke', 'free'), { name: 'free', revoked: true });
      assert.equal(await knock(free.token), 401);
      assert.match(await fails('revoke', 'free'), /revoked before/);
      assert.match(await fails('rotate', 'free'), /revoked before/);
      const rotated = await runner('rotate', 'bound');
      assert.deepEqual(await Promise.all([bound, rotated].map(({ token }) => knock(token))), [401, 426]);

      const all = await list();
      assert.deepEqual(
        all.map(({ name, accounts: emails, revoked }) => [name, emails, revoked]),
        [
          ['free', [], true],
          ['bound', ['alice@example.org', 'bob@example.org'], false],
        ],
      );
      const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;
      for (const { created_at: created, last_seen_at: seen } of all) {
        assert.match(String(created), moment);
        assert.match(String(seen), moment);
      }
      assert.deepEqual(Object.keys(all[0] ?? {}), [
        'name',
        'created_at',
        'last_seen_at',
        'accounts',
        'draining',
        'revoked',
        'revoked_at',
      ]);
      assert.match(await fails('drain', 'nobody'), /there is no runner nobody/);
      assert.match(await fails('drain', 'free'), /revoked before/);
      const isDraining = async (): Promise<unknown> => (await list()).find(({ name }) => name === 'bound')?.draining;
      assert.deepEqual(await runner('drain', 'bound'), { name: 'bound', draining: true });
      assert.equal(await isDraining(), true);
      assert.deepEqual(await runner('drain', 'bound', '--off'), { name: 'bound', draining: false });
      assert.equal(await isDraining(), false);
      const again = await runner('create', 'free');
      assert.deepEqual(await Promise.all([free, again].map(({ token }) => knock(token))), [401, 426]);
      assert.equal((await list()).filter(({ name }) => name === 'free').length, 1);

      const made = JSON.parse((await admin('user', 'create', 'carol@example.org')).said) as Credentials;
      const team = (await server.api.post('/organisations', { as: made, form: { name: 'acme' } })).record;
      const theirs = await runner('create', 'of-acme', '--organisation', 'acme');
      assert.equal(await knock(theirs.token), 426);
      assert.match(await fails('create', 'lost', '--organisation', 'nobody'), /there is no organisation nobody/);
      const listed = (await list()).find(({ name }) => name === 'of-acme');
      assert.deepEqual(listed?.accounts, ['acme']);
      const { list: seen } = await server.api.get(`/organisations/${team.id}/runners`, { as: made });
      assert.deepEqual(
        seen.map(({ name }) => name),
        ['of-acme'],
      );
      server.api.close();
      server.process.kill('SIGTERM');
      await server.exited;
    });
  });
});
