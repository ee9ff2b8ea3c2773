import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { noteTokenUses } from '../../../src/server/auth/token-uses.ts';
import { updateUser } from '../../../src/server/auth/users.ts';
import { scopes } from '../../../src/server/http/route.ts';
import { basic, type Answer, type Record_ } from '../../support/client.ts';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertRecent,
  assertRefused,
  assertWrongFields,
} from '../../support/expect.ts';
import { Listener } from '../../support/firehose.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const unauthorized = { generic: ['unauthorized'] };
const missing = { generic: ['not_found'] };
const day = 24 * 60 * 60 * 1000;
const fields = 'id id_str name scopes project_ids expires_at last_used_at last_used_from created_at';

type Form = Record<string, string | readonly string[]>;

describeService(
  'a token of a user',
  (service) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });

    const pairs = (form: Form): [string, string][] =>
      Object.entries(form).flatMap(([name, value]) => [value].flat().map((one): [string, string] => [name, one]));
    const ask = (user: User, form: Form): Promise<Answer> =>
      user.post('/tokens', pairs({ name: 'script', 'scopes[]': 'projects', ...form }));
    async function make(user: User, form: Form = {}): Promise<Record_ & { token: string }> {
      const answer = await ask(user, form);
      assert.equal(answer.status, 201, answer.text);
      return answer.record as Record_ & { token: string };
    }
    const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    const get = (path: string, token: string): Promise<Answer> => service.api.get(path, bearer(token));

    test('is made with a name, scopes, projects and an end, and shown once', async () => {
      const project = await alice.createProject();
      const answer = await ask(alice, {
        'scopes[]': ['commits', 'build_requests'],
        'project_ids[]': project.id_str,
        expires_at: new Date(Date.now() + 10 * day).toISOString(),
      });
      assertCreated(answer, `${fields} token`);
      const { token, ...made } = answer.record as Record_ & { token: string };
      assert.match(token, /^hrt_[\w-]{43}$/);
      assert.deepEqual([made.scopes, made.project_ids], [['build_requests', 'commits'], [project.id]]);
      assert.deepEqual([made.last_used_at, made.last_used_from], [null, null]);
      const usual = await make(alice);
      assert.deepEqual([usual.project_ids, usual.scopes], [[], ['projects']]);
      assert.ok(Math.abs(Date.parse(String(usual.expires_at)) - Date.now() - 90 * day) < 600_000);
      const listed = await alice.get('/tokens');
      assert.deepEqual(
        listed.list.map(({ id }) => id),
        [made.id, usual.id],
      );
      for (const one of listed.list) assertFields(one, fields);
      assert.ok(!listed.text.includes('hrt_'));
      const { db } = service.store;
      const stored = await db.read.selectFrom('user_tokens').selectAll().execute();
      assert.ok(
        !JSON.stringify(stored, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)).includes(token),
      );
      assertRefused(await (await service.user()).delete(`/tokens/${made.id}`), 404, missing);
      assertDestroyed(await alice.delete(`/tokens/${usual.id}`));
      assertRefused(await get('/whoami', usual.token), 401, unauthorized);
      assert.equal((await get('/whoami', token)).status, 200);
    });

    test('is not made with fields that are wrong, or for a project that its user does not see', async () => {
      const theirs = await (await service.user()).createProject();
      assertWrongFields(await alice.post('/tokens'), { name: 'is_blank', scopes: 'is_blank' });
      for (const blank of ['', ' ', ['', ' ']])
        assertWrongFields(await ask(alice, { 'scopes[]': blank }), { scopes: 'is_blank' });
      const json = { name: 'script', scopes: [] };
      assertWrongFields(await service.api.post('/tokens', { as: alice.credentials, json }), { scopes: 'is_blank' });
      for (const wrong of ['all', 'projects commits', 'never'])
        assertWrongFields(await ask(alice, { 'scopes[]': ['projects', wrong] }), { scopes: 'invalid_format' });
      const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();
      for (const wrong of ['tomorrow', '2026-02-31', soon(-1000), soon(367 * day), String(Date.now() + day)])
        assertWrongFields(await ask(alice, { expires_at: wrong }), { expires_at: 'invalid_format' });
      for (const right of [soon(364 * day), soon(day).slice(0, 10)]) await make(alice, { expires_at: right });
      assertWrongFields(await ask(alice, { 'project_ids[]': 'x' }), { project_ids: 'invalid_format' });
      const mine = await alice.createProject();
      for (const id of [theirs.id_str, '1'])
        assertRefused(await ask(alice, { 'project_ids[]': [mine.id_str, id] }), 404, { project_ids: ['not_found'] });
    });

    test('opens the API as Bearer, or as the password of its own user, and nowhere else', async () => {
      const bob = await service.user();
      const { token } = await make(alice);
      const own = { email: alice.email };
      assert.deepEqual((await get('/whoami', token)).response, own);
      const signed = (email: string, key: string) => service.api.get('/whoami', { as: { email, api_key: key } });
      assert.deepEqual((await signed(alice.email, token)).response, own);
      assert.deepEqual((await signed(alice.email.toUpperCase(), token)).response, own);
      for (const refused of [
        await signed(bob.email, token),
        await signed('', token),
        await signed(alice.email, `${token}x`),
        await signed(alice.email, token.slice(0, -1)),
        await get('/whoami', `${token}x`),
        await service.api.get(`/whoami?oauth_token=${token}`),
        await service.api.get(`/whoami?callback=f&oauth_token=${token}`),
        await service.api.get('/whoami', { headers: { cookie: `headrace_session=${token}` } }),
      ])
        if (refused.text.startsWith('f(')) assert.doesNotMatch(refused.text, /example\.org/);
        else assertRefused(refused, 401, unauthorized);
      assert.ok(service.log.includes('answered'));
      assert.ok(!service.log.includes(token));
    });

    test('makes, changes and removes no credentials, whatever its scopes', async () => {
      const { token, id } = await make(alice, { 'scopes[]': Object.keys(scopes) });
      const password = { password: alice.credentials.password };
      for (const [method, path, form] of [
        ['POST', '/tokens', { name: 'child', 'scopes[]': 'user' }],
        ['GET', '/tokens', {}],
        ['DELETE', `/tokens/${id}`, {}],
        ['POST', '/api_key', {}],
        ['POST', '/applications', { name: 'App', 'redirect_uris[]': 'https://app.example.org/' }],
        ['GET', '/authorizations', {}],
        ['DELETE', '/account', password],
        ['POST', '/users', { email: 'new@example.org' }],
      ] as const)
        assertRefused(await service.api.ask(method, path, { form, ...bearer(token) }), 401, unauthorized);
      for (const path of ['/ui/account', '/ui/account/tokens/new', '/ui/account/passkeys/new']) {
        const answer = await get(path, token);
        assert.notEqual(answer.status, 200, path);
      }
      assert.equal((await alice.get('/whoami')).status, 200);
    });

    test('is refused like a wrong one when it has expired, and when its user may not sign in', async () => {
      const { db } = service.store;
      const carol = await service.user();
      const [expired, held] = [await make(carol), await make(carol)];
      await db.transaction((trx) =>
        trx
          .updateTable('user_tokens')
          .set({ expires_at: BigInt(Date.now()) })
          .where('id', '=', expired.id)
          .execute(),
      );
      assertRefused(await get('/whoami', expired.token), 401, unauthorized);
      assertRefused(
        await service.api.get('/whoami', { as: { email: carol.email, api_key: expired.token } }),
        401,
        unauthorized,
      );
      assert.equal((await carol.get('/tokens')).list.length, 2);
      await service.suspend(carol);
      assertRefused(await get('/whoami', held.token), 401, { generic: ['account_suspended'] });
      await db.transaction((trx) => updateUser(trx, carol.email, { suspended: 0 }));
      await db.transaction((trx) =>
        trx.updateTable('users').set({ shut_out: 'groups' }).where('email', '=', carol.email).execute(),
      );
      assertRefused(await get('/whoami', held.token), 401, unauthorized);
    });

    test('has its last use written down within seconds, without a transaction for each call', async () => {
      const { token, id } = await make(alice);
      const seen = async (): Promise<Record_ | undefined> =>
        (await alice.get('/tokens')).list.find((one) => one.id === id);
      await get('/whoami', token);
      let used = await seen();
      while (used?.last_used_at === null) {
        await pause(50);
        used = await seen();
      }
      assertRecent(used?.last_used_at);
      assert.equal(used?.last_used_from, '127.0.0.1');

      // Many uses are one write, and the last one counts.
      const { id: other } = await make(alice);
      const { db } = service.store;
      const uses = noteTokenUses({ db, onTrouble: (error) => assert.fail(String(error)), pauseMs: 3_600_000 });
      for (const from of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) uses.note(other, from);
      const rows = db.read.selectFrom('user_tokens').select('last_used_from').where('id', '=', other);
      assert.equal((await rows.executeTakeFirstOrThrow()).last_used_from, null);
      await uses.close();
      assert.equal((await rows.executeTakeFirstOrThrow()).last_used_from, '192.0.2.3');
    });

    test('of one project knows no other, nor what belongs to the whole account', async () => {
      const [mine, other] = [
        await alice.createProject({ name: 'sluice gate' }),
        await alice.createProject({ name: 'sluice weir' }),
      ];
      const organisation = (await alice.post('/organisations', { name: 'weirs' })).record;
      const scoped = ['projects', 'commits', 'suites', 'build_requests', 'organisations', 'dependencies', 'user'];
      const { token } = await make(alice, { 'scopes[]': scoped, 'project_ids[]': mine.id_str });
      const ids = async (path: string): Promise<unknown[]> => (await get(path, token)).list.map(({ id }) => id);
      assert.deepEqual(await ids('/projects'), [mine.id]);
      assert.deepEqual(await ids(`/projects?organisation_id=${organisation.id}`), []);
      assert.deepEqual(await ids('/search?q=sluice'), [mine.id]);
      const {
        projects,
        all,
        found,
        ending_tokens: tokens,
      } = (await get('/dashboard', token)).record as Record_ & {
        projects: Record_[];
      };
      assert.deepEqual([projects.map(({ id }) => id), all, found, tokens], [[mine.id], 1, 1, []]);
      assert.doesNotMatch((await get('/cctray.xml', token)).text, /weir/);
      assertRefused(await get(`/projects/${other.id}`, token), 404, missing);
      assertRefused(await get(`/projects/${other.id}/firehose`, token), 404, missing);
      for (const path of ['/organisations', `/organisations/${organisation.id}`, '/dependencies', '/marketplace'])
        assertRefused(await get(path, token), 401, unauthorized);
      const form = { name: 'new', repository_url: 'git@example.org:a/b.git' };
      assertRefused(await service.api.post('/projects', { form, ...bearer(token) }), 401, unauthorized);
      const to = { organisation_id: organisation.id };
      assertRefused(
        await service.api.post(`/projects/${mine.id}/transfer`, { form: to, ...bearer(token) }),
        401,
        unauthorized,
      );

      // Handed over by its owner, it stays the token's project while its user may see it; deleted, it opens no other.
      assert.equal((await alice.post(`/projects/${mine.id}/transfer`, to)).status, 200);
      assert.deepEqual(await ids('/projects'), [mine.id]);
      assertDestroyed(await alice.delete(`/projects/${mine.id}`));
      assert.deepEqual(await ids('/projects'), []);
      assert.deepEqual(await ids('/search?q=sluice'), []);
      assertRefused(await get(`/projects/${other.id}`, token), 404, missing);
    });

    test('may do what its user may do now, also on a stream that is open', async () => {
      const member = await service.user();
      const organisation = (await alice.post('/organisations', { name: 'stream-keepers' })).record;
      const members = `/organisations/${organisation.id}/members`;
      const joined = (await alice.post(members, { email: member.email, role: 'maintainer' })).record;
      const form = { name: 'ours', repository_url: 'git@example.org:a/b.git', organisation_id: organisation.id };
      const project = (await alice.post('/projects', form)).record;
      const path = `/projects/${project.id}`;
      const { token, id } = await make(member, { 'project_ids[]': project.id_str });
      const { token: second } = await make(member);
      const rename = () => service.api.put(path, { form: { description: 'new' }, ...bearer(token) });
      assert.equal((await rename()).status, 200);
      await alice.put(`${members}/${joined.id}`, { role: 'viewer' });
      assertRefused(await rename(), 401, unauthorized);

      const streams = [token, second].map(async (one) => {
        const answer = await service.api.open(`${path}/firehose`, bearer(one));
        assert.equal(answer.statusCode, 200);
        return new Listener(answer);
      });
      const [first, other] = await Promise.all(streams);
      assertDestroyed(await member.delete(`/tokens/${id}`));
      await first?.rest(); // it ends
      assertDestroyed(await alice.delete(`${members}/${joined.id}`));
      await other?.rest();
      assertRefused(await get(path, second), 404, missing);
    });

    test('ends with everything else of its user', async () => {
      const leaver = await service.user();
      const { token } = await make(leaver);
      assert.deepEqual((await get('/whoami', token)).response, { email: leaver.email });
      const { password } = leaver.credentials;
      const left = await service.api.ask('DELETE', '/account', { as: leaver.credentials, form: { password } });
      assertDestroyed(left);
      assertRefused(await get('/whoami', token), 401, unauthorized);
    });

    test('is named in the audit log as what acted', async () => {
      const { token, name } = await make(alice, { name: 'Nightly script' });
      const made = await service.api.post('/projects', {
        form: { name: 'by a script', repository_url: 'git@example.org:a/b.git' },
        headers: { authorization: basic({ email: alice.email, api_key: token }) },
      });
      assert.equal(made.status, 201, made.text);
      const rows = await service.store.db.read
        .selectFrom('audit_entries')
        .select(['action', 'via', 'application'])
        .where('subject_id', '=', made.record.id)
        .execute();
      assert.deepEqual(
        rows.map(({ action, via, application }) => [action, via, application]),
        [['project.created', 'user_token', name]],
      );
    });
  },
  { streamPauseMs: 50 },
);
