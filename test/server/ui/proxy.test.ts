import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { insertUser, makeCredentials } from '../../../src/server/auth/users.ts';
import { openStore } from '../../../src/cli/operator/store.ts';
import { readConfig } from '../../../src/shared/config.ts';
import { startServer } from '../../../src/server/server.ts';
import { basic } from '../../support/client.ts';
import { onOneDatabase, temporaryFolder } from '../../support/databases.ts';

describe('behind a proxy', () => {
  onOneDatabase((database) => {
    const start = async (flags: Record<string, string>) => {
      const folder = temporaryFolder();
      const url: Record<string, string> =
        database.kind === 'postgres' ? { database_url: await database.emptyUrl() } : {};
      const config = readConfig({ flags: { data_dir: folder, port: '0', tls: 'off', ...url, ...flags }, env: {} });
      const store = await openStore(config, assert.ifError);
      const server = await startServer({ config, store, log: pino({ level: 'silent' }) });
      database.afterwards(async () => {
        await server.close();
        await store.close();
        rmSync(folder, { recursive: true });
      });
      const send = (path: string, init: RequestInit = {}): Promise<Response> =>
        fetch(`${server.address}${path}`, { redirect: 'manual', ...init });
      return { store, send };
    };

    test('cookies are for HTTPS alone where the world sees HTTPS', async () => {
      for (const [flags, cookie] of [
        [{ base_url: 'https://ci.example.org' }, /^__Host-headrace_visit=hrv_[\w-]{43}; Path=\/; .*; Secure$/],
        [{}, /^headrace_visit=hrv_[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/],
      ] as const) {
        const { send } = await start(flags);
        const page = await send('/ui/sign-in');
        assert.match(page.headers.getSetCookie()[0] ?? '', cookie);
      }
    });

    test('the address whose failures count is the one that the proxy wrote, and forms may come by its name', async () => {
      const { store, send } = await start({ base_url: 'https://ci.example.org' });
      const page = await send('/ui/sign-in');
      const cookie = (page.headers.getSetCookie()[0] ?? '').split(';', 1)[0] ?? '';
      const key = /name="form_key" value="([^"]+)"/.exec(await page.text())?.[1] ?? '';
      const body = new URLSearchParams({ form_key: key, email: 'a@example.org', password: 'x' });
      const post = async (headers: Record<string, string>): Promise<number> =>
        (await send('/ui/sign-in', { method: 'POST', body, headers: { cookie, ...headers } })).status;
      const origin = 'https://ci.example.org';
      assert.equal(await post({ origin, 'x-forwarded-for': '192.0.2.99, 198.51.100.7' }), 401);
      assert.equal(await post({ origin, 'x-forwarded-for': '2001:db8:1:2:3::4' }), 401);
      assert.equal(await post({ origin: 'https://evil.example' }), 403);
      const rows = await store.db.read.selectFrom('sign_in_failures').select('subject').execute();
      const addresses = rows.map(({ subject }) => subject).filter((subject) => subject.startsWith('address:'));
      assert.deepEqual(addresses.toSorted(), ['address:198.51.100.7', 'address:2001:db8:1:2::/64']);
    });

    test('visitors are counted by the address that the proxy wrote', async () => {
      const { store, send } = await start({ public_rate: '2' });
      const { credentials, stored } = await makeCredentials('a@example.org');
      const user = { email: credentials.email, kind: 'user', secrets: stored } as const;
      await store.db.transaction((trx) => insertUser(trx, store.ids, user));
      const authorization = basic(credentials);
      const body = new URLSearchParams({ name: 'p', repository_url: 'git@example.org:a.git', public: 'true' });
      const made = await send('/projects', { method: 'POST', body, headers: { authorization } });
      const { response } = (await made.json()) as { response: { id_str: string } };
      const ask = async (headers: Record<string, string>): Promise<number> =>
        (await send(`/projects/${response.id_str}`, { headers })).status;
      const from = (address: string) => ask({ 'x-forwarded-for': `192.0.2.99, ${address}` });
      assert.deepEqual(
        [await from('198.51.100.7'), await from('198.51.100.7'), await from('198.51.100.7')],
        [200, 200, 429],
      );
      assert.equal(await from('198.51.100.8'), 200);
      assert.equal(await ask({ 'x-forwarded-for': '198.51.100.7', authorization }), 200);
      // A network of IPv6 has more addresses than anybody could count.
      assert.deepEqual(
        [await from('2001:db8:1:2::1'), await from('2001:db8:1:2::2'), await from('2001:db8:1:2:3::4')],
        [200, 200, 429],
      );
      assert.equal(await from('2001:db8:1:3::1'), 200);
    });

    test('the audit log has the address that the proxy wrote, or the proxy’s own', async () => {
      const { store, send } = await start({});
      const { credentials, stored } = await makeCredentials('a@example.org');
      const user = { email: credentials.email, kind: 'user', secrets: stored } as const;
      await store.db.transaction((trx) => insertUser(trx, store.ids, user));
      for (const [name, headers] of [
        ['one', { 'x-forwarded-for': '192.0.2.99, 198.51.100.7' }],
        ['two', {}],
      ] as const) {
        const body = new URLSearchParams({ name, repository_url: 'git@example.org:a.git' });
        const sent = { method: 'POST', body, headers: { authorization: basic(credentials), ...headers } };
        assert.equal((await send('/projects', sent)).status, 201);
      }
      const rows = await store.db.read.selectFrom('audit_entries').select('address').orderBy('id').execute();
      assert.deepEqual(
        rows.map(({ address }) => address),
        ['198.51.100.7', '127.0.0.1'],
      );
    });
  });
});
