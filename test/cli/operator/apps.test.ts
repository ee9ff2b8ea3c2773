import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { command } from '../../support/command.ts';
import { serve } from '../../support/program.ts';

describe('admin app create', () => {
  onOneDatabase((database) => {
    test('registers applications while the server runs and while it does not', async () => {
      const { folder, env } = await placeFor(database);
      const admin = (...args: string[]) => command(['admin', ...args, '--data-dir', folder], env);
      const create = async (...args: string[]) => {
        const { stdout, stderr } = await admin('app', 'create', '--user', 'Alice@example.org', ...args);
        assert.match(stdout.toString(), /^\{.*\}\n$/, stderr.toString());
        return JSON.parse(stdout.toString()) as { client_id: string; client_secret?: string };
      };
      await admin('user', 'create', 'alice@example.org');
      const offline = await create('--name', 'Lamp', '--redirect-uri', 'urn:ietf:wg:oauth:2.0:oob');
      assert.deepEqual(Object.keys(offline), ['client_id', 'client_secret']);

      const server = await serve(database, folder, env);
      const addresses = ['--redirect-uri', 'https://a.example/cb', '--redirect-uri', 'http://127.0.0.1:7777/cb?x=1'];
      const online = await create('--name', 'A tool', ...addresses);
      const installed = await create('--name', 'Installed', '--redirect-uri', 'com.example.app:/cb', '--public');
      assert.deepEqual(Object.keys(installed), ['client_id']);
      for (const { client_id: id, client_secret: secret } of [offline, online]) {
        const form = { grant_type: 'authorization_code', code: 'x', client_id: id, client_secret: secret ?? '' };
        const answer = await server.api.post('/oauth2/access_token', { form });
        assert.deepEqual([answer.status, answer.body.error], [400, 'invalid_grant']);
      }
      const { stdout } = await admin('app', 'list');
      const { applications } = JSON.parse(stdout.toString()) as { applications: Record<string, unknown>[] };
      assert.deepEqual(
        applications.map(({ name }) => name),
        ['Lamp', 'A tool', 'Installed'],
      );
      assert.deepEqual(applications[2], {
        client_id: installed.client_id,
        name: 'Installed',
        user: 'alice@example.org',
        public: true,
        redirect_uris: ['com.example.app:/cb'],
      });
      const deleted = await admin('app', 'delete', online.client_id);
      assert.deepEqual(JSON.parse(deleted.stdout.toString()), {
        client_id: online.client_id,
        name: 'A tool',
        deleted: true,
      });
      const form = { grant_type: 'authorization_code', code: 'x', client_id: online.client_id };
      const gone = await server.api.post('/oauth2/access_token', {
        form: { ...form, client_secret: online.client_secret ?? '' },
      });
      assert.equal(gone.body.error, 'invalid_client');
      assert.equal((await admin('app', 'delete', online.client_id)).status, 1);
      server.api.close();
      server.process.kill('SIGTERM');
      await server.exited;
    });

    test('says what is wrong', async () => {
      const { folder, env } = await placeFor(database);
      const create = async (user: string, name: string, address: string): Promise<string> => {
        const args = ['admin', 'app', 'create', '--user', user, '--name', name, '--redirect-uri', address];
        const { status, stderr } = await command([...args, '--data-dir', folder], env);
        assert.equal(status, 1);
        return stderr.toString();
      };
      await command(['admin', 'user', 'create', 'alice@example.org', '--data-dir', folder], env);
      assert.match(await create('nobody@example.org', 'X', 'https://a.example/'), /there is no account nobody@/);
      assert.match(await create('alice@example.org', ' ', 'https://a.example/'), /Give it a name/);
      for (const address of [
        '/cb',
        'javascript:alert(1)',
        'https://a.example/#x',
        'https://u:p@a.example/',
        'data:,x',
      ]) {
        assert.match(await create('alice@example.org', 'X', address), /is not a redirect address/);
      }
      const missing = await command(['admin', 'app', 'create', '--name', 'X', '--data-dir', folder], env);
      assert.equal(missing.status, 2);
      assert.match(missing.stderr.toString(), /admin app create --user EMAIL/);
    });
  });
});
