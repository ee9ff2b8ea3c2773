import assert from 'node:assert/strict';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Finished } from '../../../src/shared/lib/processes.ts';
import type { Credentials } from '../../support/client.ts';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { command } from '../../support/command.ts';
import { headrace, serve } from '../../support/program.ts';

interface Printed {
  action: string;
  created_at: string;
  actor: unknown;
  via: string;
  address: unknown;
  subject: { type: string; name: string };
  details: Record<string, unknown>;
}

describe('the command line', () => {
  onOneDatabase((database) => {
    const start = async () => {
      const { folder, env } = await placeFor(database);
      const tried = (...args: string[]) => command([...args, '--data-dir', join(folder, 'data')], env);
      const object = ({ status, stdout, stderr }: Finished): Record<string, unknown> => {
        assert.equal(status, 0, stderr.toString());
        return JSON.parse(stdout.toString()) as Record<string, unknown>;
      };
      const done = async (...args: string[]) => object(await tried(...args));
      /** As a process of its own. */
      const program = (...args: string[]) => headrace([...args, '--data-dir', join(folder, 'data')], env);
      const audit = async (...flags: string[]): Promise<Printed[]> => {
        const { status, stdout, stderr } = await program('admin', 'audit', ...flags);
        assert.equal(status, 0, stderr.toString());
        const lines = stdout.toString().split('\n').slice(0, -1);
        return lines.map((line) => JSON.parse(line) as Printed);
      };
      return { folder: join(folder, 'data'), env, tried, done, object, program, audit };
    };

    test('writes down what is done on the machine, and prints it', async () => {
      const { folder, tried, done, object, program, audit } = await start();
      const user = (...args: string[]) => done('admin', 'user', ...args);
      const alice = 'alice@example.org';
      const made = await user('create', alice);
      for (const state of ['suspend', 'suspend', 'resume']) await user(state, alice);
      await user('billing', alice, 'overdue');
      await user('reset', alice);
      const link = await user('password-link', alice);
      const registered = ['--user', alice, '--name', 'Lamp', '--redirect-uri', 'https://lamp.example/back'];
      const app = object(await program('admin', 'app', 'create', ...registered));
      await done('admin', 'app', 'delete', String(app.client_id));
      const runner = await done('admin', 'runner', 'create', 'far-away');
      object(await program('admin', 'master-key', 'rotate'));
      assert.equal((await tried('backup', join(folder, 'kept'))).status, 0);
      assert.notEqual((await tried('admin', 'user', 'create', alice)).status, 0);
      assert.notEqual((await tried('admin', 'user', 'suspend', 'nobody@example.org')).status, 0);
      const entries = await audit();
      assert.deepEqual(
        entries
          .map(({ action, subject }) => [action, subject.name])
          .filter(([action]) => action !== 'master_key.rotated'),
        [
          ['user.created', alice],
          ['user.suspended', alice],
          ['user.resumed', alice],
          ['user.billing_changed', alice],
          ['user.credentials_reset', alice],
          ['user.password_link_created', alice],
          ['application.created', 'Lamp'],
          ['application.deleted', 'Lamp'],
          ['runner.created', 'far-away'],
          ['backup.created', join(folder, 'kept')],
        ],
      );
      assert.equal(entries.at(-2)?.action, 'master_key.rotated');
      for (const { actor, via, address, details } of entries) {
        assert.deepEqual([actor, via, address, details.unix_user], [null, 'command_line', null, userInfo().username]);
      }
      const text = JSON.stringify(entries);
      const url = new URL(String(link.url));
      for (const secret of [
        made.password,
        made.api_key,
        app.client_secret,
        runner.token,
        url.searchParams.get('token'),
      ]) {
        assert.ok(String(secret).length > 10 && !text.includes(String(secret)));
      }
      const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
      assert.deepEqual(await audit('--since', tomorrow), []);
      assert.equal((await audit('--since', new Date(Date.now() - 3_600_000).toISOString())).length, entries.length);
      assert.equal((await tried('admin', 'audit', '--since', 'yesterday-ish')).status, 2);
    });

    test('makes operators: the first user is one, others are made', async () => {
      const { folder, env, tried, done } = await start();
      const operator = (...args: string[]) => done('admin', 'user', 'operator', ...args);
      const server = await serve(database, folder, env);
      const shown = (label: string): string => new RegExp(`^ *${label} +(\\S+)$`, 'm').exec(server.output)?.[1] ?? '';
      const first = { email: shown('e-mail'), api_key: shown('API key') };
      const second = (await done('admin', 'user', 'create', 'second@example.org')) as unknown as Credentials;
      const status = async (as: Credentials): Promise<number> => (await server.api.get('/audit', { as })).status;
      assert.deepEqual([await status(first), await status(second)], [200, 401]);
      const state = { email: second.email, kind: 'user', suspended: false, billing: 'ok' };
      assert.deepEqual(await operator(second.email, 'on'), { ...state, operator: true });
      assert.equal(await status(second), 200);
      assert.deepEqual(await operator(second.email, 'off'), { ...state, operator: false });
      assert.equal(await status(second), 401);
      for (const wrong of [
        [second.email, 'maybe'],
        ['nobody@example.org', 'on'],
      ]) {
        assert.equal((await tried('admin', 'user', 'operator', ...wrong)).status, 1);
      }
      const { list } = await server.api.get('/audit', { as: first });
      assert.deepEqual(
        list.map(({ action, details }) => [action, (details as { operator?: boolean }).operator]),
        [
          ['user.operator_changed', false],
          ['user.operator_changed', true],
          ['user.created', undefined],
          ['user.created', undefined],
        ],
      );
      server.api.close();
    });

    test('gives somebody who was only invited an account of their own, with what they were invited to', async () => {
      const { folder, env, tried, done } = await start();
      const create = (...args: string[]) => tried('admin', 'user', 'create', ...args);
      const alice = (await done('admin', 'user', 'create', 'alice@example.org')) as unknown as Credentials;
      const server = await serve(database, folder, env);
      const project = (
        await server.api.post('/projects', { as: alice, form: { name: 'shared', repository_url: 'g@h:p.git' } })
      ).record;
      const invited = { email: 'bob@example.org' };
      await server.api.post(`/projects/${project.id}/collaborators`, { as: alice, form: invited });
      const refused = await create(invited.email, '--collaborator');
      assert.deepEqual([refused.status, refused.stdout.toString()], [1, '']);
      assert.match(refused.stderr.toString(), /already_exists/);
      const made = await create(invited.email);
      assert.equal(made.status, 0, made.stderr.toString());
      const bob = JSON.parse(made.stdout.toString()) as Credentials;
      assert.deepEqual(Object.keys(bob), ['email', 'password', 'api_key']);
      const own = await server.api.post('/projects', { as: bob, form: { name: 'own', repository_url: 'g@h:o.git' } });
      assert.equal(own.status, 201, own.text);
      const { list } = await server.api.get('/projects', { as: bob });
      assert.deepEqual(
        list.map(({ name, owned }) => [name, owned]),
        [
          ['shared', false],
          ['own', true],
        ],
      );
      assert.equal((await server.api.get('/audit', { as: bob })).status, 401, 'and is no operator by it');
      const twice = await create(invited.email);
      assert.equal(twice.status, 1);
      assert.match(twice.stderr.toString(), /already_exists/);
      assert.equal((await server.api.get('/whoami', { as: bob })).status, 200, 'what failed changed nothing');
      server.api.close();
    });
  });
});
