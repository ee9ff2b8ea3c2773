import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entriesSince } from '../../../src/server/auth/audit.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import {
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertRecent,
  assertWrongFields,
} from '../../support/expect.ts';
import { FakeForge, forgeToken, type Dialect } from '../../support/fake-forge.ts';
import { registerApplication } from '../../support/applications.ts';
import { describeService, describeServiceOnOne, type Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const allowing = { settings: { webhook_allow: '127.0.0.0/8' } };

/** The error, and words that a person can read. */
function assertInWords(answer: Answer, fields: Record<string, string>, words: RegExp): void {
  const { error, message } = answer.body as unknown as { error: object; message: string };
  assert.equal(answer.status, 403, answer.text);
  assert.deepEqual(error, Object.fromEntries(Object.entries(fields).map(([name, code]) => [name, [code]])));
  assert.match(message, words);
  assert.ok(!answer.text.includes(forgeToken), answer.text);
}

async function connect(user: User, forge: FakeForge): Promise<Record_> {
  const made = await user.post('/forges', forge.fields);
  assert.equal(made.status, 201, made.text);
  return made.record;
}

async function auditOf({ store }: Service, action: string) {
  const entries = await Array.fromAsync(entriesSince(store.db.read, 0n));
  return entries.filter((entry) => entry.action === action);
}

async function until<T>(seen: () => Promise<T>, fits: (value: T) => boolean): Promise<T> {
  for (const began = Date.now(); ;) {
    const value = await seen();
    if (fits(value)) return value;
    assert.ok(Date.now() - began < longestWait, 'it never came to that');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describeService(
  'forges',
  (service) => {
    test('are connected, shown, checked and disconnected by their account alone [promise: account-walls]', async () => {
      await using forge = await FakeForge.start('github', 'team/app', 'team/lib', 'team/tool');
      const [alice, bob] = [await service.user(), await service.user()];
      const made = await alice.post('/forges', forge.fields);
      assert.equal(made.status, 201, made.text);
      assertFields(made.record, 'id id_str provider url login may checked_at state state_reason');
      const { id } = made.record;
      assert.deepEqual(
        { ...made.record, checked_at: assertRecent(made.record.checked_at) },
        {
          id,
          id_str: String(id),
          provider: 'github',
          url: forge.url,
          login: 'ada',
          may: ['read', 'keys', 'hooks', 'statuses'],
          checked_at: undefined,
          state: 'connected',
          state_reason: '',
        },
      );
      assert.deepEqual((await alice.get('/forges')).list, [made.record]);
      assert.deepEqual((await alice.get(`/forges/${id}`)).record, made.record);

      const project = await alice.createProject({ repository_url: 'git@forge.example.org:Team/app.git' });
      const listed = await alice.get(`/forges/${id}/repositories`);
      assert.deepEqual(
        listed.list.map((one) => [one.full_name, one.may_administer, one.project_id_str]),
        [
          ['team/app', true, String(project.id)],
          ['team/lib', true, ''],
        ],
      );
      assertFields(
        listed.list[0] ?? {},
        'full_name ssh_url https_url default_branch private archived may_administer project_id project_id_str',
      );
      assert.match(String(listed.headers.link), /repositories\?page=2>; rel="next"$/);
      const last = await alice.get(`/forges/${id}/repositories?page=2`);
      assert.deepEqual(
        last.list.map(({ full_name: name }) => name),
        ['team/tool'],
      );
      assert.match(String(last.headers.link), /page=1>; rel="prev"$/);
      const found = await alice.get(`/forges/${id}/repositories?query=TOO`);
      assert.deepEqual([found.list.length, found.list[0]?.full_name], [1, 'team/tool']);

      // A stranger, a collaborator, and a token of another scope.
      await alice.invite(project, bob);
      const paths = [`/forges/${id}`, `/forges/${id}/repositories`];
      for (const path of paths) assertNotFound(await bob.get(path));
      assertNotFound(await bob.put(`/forges/${id}`, { token: 'theirs' }));
      assertNotFound(await bob.post(`/forges/${id}/check`));
      assertNotFound(await bob.delete(`/forges/${id}`));
      assert.deepEqual((await bob.get('/forges')).list, []);
      assertWrongFieldsNotFound(await bob.post('/projects', { forge_id: id, repository: 'team/app' }));
      assert.equal((await bob.post(`/projects/${project.id}/connect`, { forge_id: id })).status, 401);
      const application = await registerApplication(service, alice);
      const narrow = await application.token(alice, ['suites', 'build_requests', 'deploys']);
      for (const path of ['/forges', ...paths])
        assert.equal((await service.api.get(path, { headers: { authorization: `Bearer ${narrow}` } })).status, 401);

      const stored = service.store.db.read.selectFrom('forges').select('token').where('id', '=', id);
      assert.ok(!(await stored.executeTakeFirstOrThrow()).token.includes('kittiwake'));
      assert.ok(!service.log.includes('kittiwake'));

      // The token expires, is told of once, and is replaced.
      forge.token = 'a-new-token';
      const checked = await alice.post(`/forges/${id}/check`);
      assert.deepEqual([checked.status, checked.record.state], [200, 'refused'], checked.text);
      assert.match(String(checked.record.state_reason), /401: Bad credentials\. A token needs the scope repo\./);
      await alice.post(`/forges/${id}/check`);
      const refusals = (await auditOf(service, 'forge.refused')).filter(({ subject_id: about }) => about === id);
      assert.equal(refusals.length, 1);
      assertInWords(
        await alice.put(`/forges/${id}`, { token: 'wrong' }),
        { token: 'invalid_format' },
        /Bad credentials/,
      );
      assertWrongFields(await alice.put(`/forges/${id}`, { url: forge.url }), { url: 'invalid_format' });
      const mended = await alice.put(`/forges/${id}`, { token: 'a-new-token' });
      assert.deepEqual([mended.status, mended.record.state, mended.record.state_reason], [200, 'connected', '']);

      assertDestroyed(await alice.delete(`/forges/${id}`));
      assertNotFound(await alice.get(`/forges/${id}`));
      assert.deepEqual((await alice.get('/forges')).list, []);
    });

    test('that are none, are away or refuse are told in words, and nothing is kept', async () => {
      await using forge = await FakeForge.start('gitlab');
      const alice = await service.user();
      const sent = forge.fields;
      const wrongUrl = { url: 'invalid_format' };
      assertInWords(await alice.post('/forges', { ...sent, token: 'wrong' }), { token: 'invalid_format' }, /scope api/);
      await using center = await FakeForge.start('center');
      const refused = await alice.post('/forges', { ...center.fields, token: 'wrong' });
      assertInWords(refused, { token: 'invalid_format' }, /A token needs the scope Repository admin\.$/);
      assertInWords(await alice.post('/forges', { ...sent, url: 'http://10.1.2.3' }), wrongUrl, /not public/);
      assertInWords(await alice.post('/forges', { ...sent, url: `${forge.url}/elsewhere` }), wrongUrl, /404/);
      assertInWords(
        await alice.post('/forges', { ...sent, url: 'http://no-such-host.invalid' }),
        wrongUrl,
        /does not exist/,
      );
      const later = { generic: 'resource_temporary_unavailable' };
      assertInWords(
        await alice.post('/forges', { ...sent, url: 'http://127.0.0.1:9' }),
        later,
        /connection was refused/,
      );
      assertInWords(
        await alice.post('/forges', { ...sent, url: service.address }),
        wrongUrl,
        /cannot be called: its certificate is self-signed, and not trusted here\.$/,
      );
      forge.interfere = () => ({ status: 429, headers: { 'retry-after': '5' }, body: { message: 'Slow down' } });
      assertInWords(await alice.post('/forges', sent), later, /429: Slow down/);
      forge.interfere = () => ({ status: 302, headers: { location: 'http://10.0.0.1/' }, body: {} });
      assertInWords(await alice.post('/forges', sent), wrongUrl, /302/);
      assertWrongFields(await alice.post('/forges', { provider: 'gitlab', url: 'ftp://x', token: 'a b' }), {
        url: 'invalid_format',
        token: 'invalid_format',
      });
      assert.deepEqual((await alice.get('/forges')).list, []);
      forge.interfere = () => undefined;
      forge.scopes = 'read_api';
      const { may, state, state_reason: reason } = await connect(alice, forge);
      assert.deepEqual(
        [may, state, reason],
        [['read'], 'connected', 'The token lacks the scope api that Headrace needs.'],
      );
    });

    test('a project is made in one step, looked after, and leaves nothing behind', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const [alice, bob] = [await service.user(), await service.user()];
      const { id: forgeId } = await connect(alice, forge);
      const made = await alice.post('/projects', { forge_id: forgeId, repository: 'team/app', poll_interval: '60' });
      assert.equal(made.status, 201, made.text);
      const { record: project } = made;
      const link = (one: Record_) => [one.forge_id_str, one.forge_repository, one.forge_state, one.forge_state_reason];
      const connected = [String(forgeId), 'team/app', 'connected', ''];
      assert.deepEqual(link(project), connected);
      assert.deepEqual([project.name, project.repository_url], ['app', 'git@forge.example.org:team/app.git']);
      const app = forge.of('team/app');
      const [key, ...otherKeys] = app.keys;
      const [hook, ...otherHooks] = app.hooks;
      assert.deepEqual([otherKeys, otherHooks, key?.readOnly], [[], [], true]);
      assert.ok(String(project.ssh_public_key).startsWith(`${key?.key} `));
      const [own] = (await alice.get(`/projects/${project.id}/hooks`)).list;
      assert.deepEqual([hook?.url, own?.provider, own?.events], [own?.url, 'gitea', ['push', 'tag', 'pull_request']]);
      const renewed = await alice.post(`/projects/${project.id}/hooks/${own?.id}/new_secret`, {});
      assert.deepEqual(
        renewed.body.error,
        { generic: ['resource_temporary_unavailable'] },
        'the forge would not know it',
      );
      const [target] = (await alice.get(`/projects/${project.id}/status_targets`)).list;
      assert.deepEqual([target?.provider, target?.api_url, target?.repository], ['gitea', forge.api, 'team/app']);
      await alice.invite(project, bob);
      assert.deepEqual(
        link((await bob.get(`/projects/${project.id}`)).record),
        connected,
        'they see that there is one',
      );

      // The whole name where the last part is taken, and then no more.
      const again = await alice.post('/projects', { forge_id: forgeId, repository: 'Team/App' });
      assert.deepEqual([again.status, again.record.name], [201, 'team/app'], again.text);
      const third = await alice.post('/projects', { forge_id: forgeId, repository: 'team/app' });
      assertWrongFields(third, { name: 'already_exists' });
      assert.deepEqual([app.keys.length, app.hooks.length], [2, 2], 'nothing was made for the third');
      assertDestroyed(await alice.delete(`/projects/${again.record.id}`));
      assert.deepEqual([app.keys, app.hooks], [[key], [hook]]);

      // What is deleted at the forge is found and mended.
      const { db } = service.store;
      const lookNow = () =>
        db.transaction(async (trx) => {
          await trx.updateTable('projects').set({ forge_check_at: 1n }).where('id', '=', project.id).execute();
          await db.announce(trx, 'forges');
        });
      const shown = async () => (await alice.get(`/projects/${project.id}`)).record;
      const isIncomplete = ({ forge_state: state }: Record_): boolean => state === 'incomplete';
      app.keys = [];
      await lookNow();
      const lacking = await until(shown, isIncomplete);
      assert.equal(lacking.forge_state_reason, 'The key is missing at the forge.');
      const path = `/projects/${project.id}/connect`;
      const mended = await alice.post(path, { forge_id: forgeId });
      assert.deepEqual([mended.status, link(mended.record)], [200, connected], mended.text);
      assert.deepEqual([app.keys.length, app.hooks], [1, [hook]]);
      assert.equal(
        (await alice.post(path, { forge_id: forgeId, repository: 'team/app' })).status,
        200,
        'as often as asked',
      );
      assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);
      forge.add('team/other');
      assertInWords(
        await alice.post(path, { forge_id: forgeId, repository: 'team/other' }),
        { repository: 'invalid_format' },
        /and not team\/other/,
      );

      // A token that expires breaks all of its projects; a new one mends them, with what is missing.
      if (hook) hook.active = false;
      forge.token = 'a-new-token';
      await alice.post(`/forges/${forgeId}/check`);
      const broken = await shown();
      assert.deepEqual(
        [broken.forge_state, /Bad credentials/.test(String(broken.forge_state_reason))],
        ['incomplete', true],
      );
      assert.equal((await alice.put(`/forges/${forgeId}`, { token: 'a-new-token' })).status, 200);
      assert.deepEqual(link(await shown()), connected);
      assert.deepEqual(
        app.hooks.map(({ url, active }) => [url, active]),
        [[hook?.url, true]],
      );

      // A hook that is deleted here goes there too, and a new one is made.
      assertDestroyed(await alice.delete(`/projects/${project.id}/hooks/${own?.id}`));
      await until(
        async () => app.hooks,
        (hooks) => hooks.length === 0,
      );
      const lacks = (reason: string) => until(shown, ({ forge_state_reason: told }) => told === reason);
      assert.equal((await lacks('The hook was deleted here.')).forge_state, 'incomplete');
      assert.deepEqual(link((await alice.post(path, { forge_id: forgeId })).record), connected);
      const targets = `/projects/${project.id}/status_targets`;
      assertDestroyed(await alice.delete(`${targets}/${(await alice.get(targets)).list[0]?.id}`));
      await lacks('The status target was deleted here.');
      assert.equal((await alice.post(path, { forge_id: forgeId })).status, 200);
      const [newHook] = app.hooks;
      assert.deepEqual([app.hooks.length, newHook?.url === hook?.url], [1, false]);

      // While the forge is away, a deletion goes through, and what is left there is taken away later.
      forge.interfere = () => ({ status: 502, body: {} });
      assertDestroyed(await alice.delete(`/projects/${project.id}`));
      const left = db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', forgeId);
      const [waiting] = await until(
        () => left.execute(),
        ([row]) => (row?.tries ?? 0) > 0,
      );
      assert.ok(waiting && waiting.run_after > waiting.created_at + 1000n && waiting.hook_url === newHook?.url);
      const soon = async (more: object) => {
        await db.transaction(async (trx) => {
          await trx
            .updateTable('forge_removals')
            .set({ run_after: 1n, ...more })
            .where('forge_id', '=', forgeId)
            .execute();
          await db.announce(trx, 'forges');
        });
      };
      await soon({ created_at: BigInt(Date.now() - 25 * 3_600_000) });
      await until(
        () => left.execute(),
        (rows) => rows.length === 0,
      );
      const [named] = (await auditOf(service, 'forge.left_behind')).filter(
        ({ subject_id: about }) => about === forgeId,
      );
      const details = JSON.parse(named?.details ?? '{}') as Record<string, string>;
      assert.deepEqual(
        [details.repository, details.hook, details.reason],
        ['team/app', newHook?.url, 'The forge answered 502.'],
      );
      const created = await auditOf(service, 'forge.created');
      assert.ok(created.length > 0 && created.every((entry) => !entry.details.includes('kittiwake')));
    });

    test('what is put there again while it is taken away stays, and what moved is found [promise: connected-forges]', async () => {
      await using forge = await FakeForge.start('github', 'team/app');
      const alice = await service.user();
      const { id: forgeId } = await connect(alice, forge);
      const { db } = service.store;
      const app = forge.of('team/app');
      const address = 'git@forge.example.org:team/app.git';
      const project = await alice.createProject({ repository_url: address });
      const path = `/projects/${project.id}`;
      const link = () => alice.post(`${path}/connect`, { forge_id: forgeId });
      const removals = db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', forgeId);
      const settled = async () => {
        await until(
          () => removals.execute(),
          (rows) => rows.length === 0,
        );
        return [app.keys.length, app.hooks.map(({ url }) => url)];
      };
      const own = async () => (await alice.get(`${path}/hooks`)).list.map(({ url }) => url);

      // Two at once, of which each puts a hook there.
      const both = await Promise.all([link(), link()]);
      for (const { status, text } of both) assert.ok(status === 200 || /already in use\. If the key/.test(text), text);
      const [first] = await own();
      assert.deepEqual([await settled(), await own()], [[1, [first]], [first]]);

      // This server had another address.
      const old = { forge_url: 'https://old.example.org/hooks/1' };
      await db.transaction((trx) => trx.updateTable('hooks').set(old).where('project_id', '=', project.id).execute());
      for (const hook of app.hooks) hook.url = old.forge_url;
      assert.equal((await link()).status, 200);
      assert.deepEqual([await settled(), await own()], [[1, [first]], [first]]);

      // The project leaves while the forge is away, and comes back before anything was taken away.
      forge.interfere = () => ({ status: 503, body: {} });
      await alice.put(path, { repository_url: 'git@forge.example.org:team/else.git' });
      await until(
        () => removals.execute(),
        ([row]) => (row?.tries ?? 0) > 0,
      );
      forge.interfere = () => undefined;
      await alice.put(path, { repository_url: address });
      assert.equal((await link()).record.forge_state, 'connected');
      const soon = { run_after: 1n };
      await db.transaction(async (trx) => {
        await trx.updateTable('forge_removals').set(soon).where('forge_id', '=', forgeId).execute();
        await db.announce(trx, 'forges');
      });
      const [second] = await own();
      assert.notEqual(second, first);
      assert.deepEqual(await settled(), [1, [second]]);

      // Under its new name it is found all the same.
      forge.repositories.delete('team/app');
      forge.repositories.set('team/river', app);
      forge.add('team/app', { movedTo: 'team/river' });
      assertDestroyed(await alice.delete(path));
      assert.deepEqual(await settled(), [0, []]);
    });

    test('a forge that is disconnected leaves its projects, without what it had', async () => {
      await using forge = await FakeForge.start('gitlab', 'team/deep/app');
      const alice = await service.user();
      const { id: forgeId } = await connect(alice, forge);
      const made = await alice.post('/projects', { forge_id: forgeId, repository: 'team/deep/app', name: 'mine' });
      assert.deepEqual([made.status, made.record.name], [201, 'mine'], made.text);
      const app = forge.of('team/deep/app');
      assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);
      assertDestroyed(await alice.delete(`/forges/${forgeId}`));
      assert.deepEqual([app.keys, app.hooks], [[], []]);
      const { record: project } = await alice.get(`/projects/${made.record.id}`);
      assert.deepEqual([project.forge_id, project.forge_id_str, project.forge_state], [null, '', 'none']);
      for (const kind of ['hooks', 'status_targets'])
        assert.deepEqual((await alice.get(`/projects/${project.id}/${kind}`)).list, []);
      const rows = service.store.db.read.selectFrom('forges').select('id').where('id', '=', forgeId);
      await until(
        () => rows.execute(),
        (those) => those.length === 0,
      );
    });
  },
  allowing,
);

function assertWrongFieldsNotFound(answer: Answer): void {
  assert.equal(answer.status, 404, answer.text);
  assert.deepEqual(answer.body.error, { forge_id: ['not_found'] });
}

describeServiceOnOne(
  'one step',
  (service) => {
    const dialects: Dialect[] = ['github', 'gitlab', 'gitea', 'center'];
    for (const dialect of dialects) {
      test(`at ${dialect} is all or nothing, and says in words why not [promise: connected-forges]`, async () => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const alice = await service.user();
        const { id: forgeId } = await connect(alice, forge);
        const make = (repository: string) => alice.post('/projects', { forge_id: forgeId, repository });
        const wrong = { repository: 'invalid_format' };
        const later = { generic: 'resource_temporary_unavailable' };
        forge.add('team/gone', { archived: true });
        forge.add('team/theirs', { admin: false });
        forge.add('team/old', { movedTo: 'team/app' });
        forge.add('team/liar', { answersAs: 'team/app' });
        assertInWords(await make('team/none'), wrong, /404/);
        assertInWords(await make('team/gone'), wrong, /archived/);
        assertInWords(await make('team/theirs'), wrong, /may not administer/);
        assertInWords(await make('team/old'), wrong, /moved to team\/app/);
        assertInWords(await make('team/liar'), wrong, /moved to team\/app/);
        for (const name of [
          '../app',
          'team/../app',
          'team/..',
          'team%2fapp',
          'team/a\nb',
          'app',
          'team/a b',
          '/team/app',
        ])
          assertWrongFields(await make(name), { repository: 'invalid_format' });
        assertWrongFields(await alice.post('/projects', { forge_id: forgeId }), { repository: 'is_blank' });
        assertWrongFields(await alice.post('/projects', { repository: 'team/app' }), { forge_id: 'is_blank' });
        const twice = { forge_id: forgeId, repository: 'team/app', repository_url: 'git@x.example.org:a.git' };
        assertWrongFields(await alice.post('/projects', twice), { repository_url: 'invalid_format' });
        assertWrongFields(await alice.post('/projects'), { name: 'is_blank', repository_url: 'is_blank' });

        const app = forge.of('team/app');
        const isHook = (path: string): boolean => path.endsWith('hooks');
        const failures = [
          [{ status: 422, body: { message: 'hooks are full' } }, wrong, /hooks are full/],
          [{ status: 403, body: { message: 'not for you' } }, wrong, /not for you/],
          [{ status: 500, body: {} }, later, /500/],
          [{ status: 429, headers: { 'retry-after': '60' }, body: {} }, later, /429/],
        ] as const;
        for (const [reply, fields, words] of failures) {
          forge.interfere = ({ method, path }) => (method === 'POST' && isHook(path) ? reply : undefined);
          assertInWords(await make('team/app'), fields, words);
          assert.deepEqual([app.keys, app.hooks], [[], []], 'the key was taken back');
        }
        forge.interfere = ({ method, path }, response) =>
          method === 'POST' && isHook(path) ? (response.destroy(), 'answered') : undefined;
        assertInWords(await make('team/app'), later, /closed without an answer/);
        assert.deepEqual([app.keys, app.hooks], [[], []]);
        assert.deepEqual((await alice.get('/projects')).list, []);
        const { db } = service.store;
        const removals = db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', forgeId);
        assert.deepEqual(await removals.execute(), []);

        forge.interfere = () => undefined;
        const key = { 'idempotency-key': `once-${dialect}` };
        const fields = { forge_id: forgeId, repository: 'team/app' };
        const first = await alice.post('/projects', fields, key);
        assert.equal(first.status, 201, first.text);
        assert.equal((await alice.post('/projects', fields, key)).text, first.text);
        assert.deepEqual([app.keys.length, app.hooks.length], [1, 1], 'once is once');
        const elsewhere = { repository_url: 'git@forge.example.org:team/else.git' };
        const moved = await alice.put(`/projects/${first.record.id}`, elsewhere);
        assert.deepEqual([moved.status, moved.record.forge_state], [200, 'none'], moved.text);
        await until(
          async () => [...app.keys, ...app.hooks],
          (left) => left.length === 0,
        );
        assert.ok(!service.log.includes('kittiwake'));
      });
    }

    test('what a server that died had made at a forge is taken away', async () => {
      await using forge = await FakeForge.start('github', 'team/app');
      const alice = await service.user();
      const { id: forgeId } = await connect(alice, forge);
      const app = forge.of('team/app');
      // The forge takes the hook, and before it answers, what was written down is all that is left.
      const arrived = Promise.withResolvers<void>();
      forge.interfere = ({ method, path }) => {
        if (method === 'POST' && path.endsWith('/hooks')) arrived.resolve();
        return undefined;
      };
      const { db } = service.store;
      const making = alice.post('/projects', { forge_id: forgeId, repository: 'team/app' });
      await arrived.promise;
      await db.transaction(async (trx) => {
        await trx.updateTable('forge_removals').set({ run_after: 1n }).where('forge_id', '=', forgeId).execute();
        await db.announce(trx, 'forges');
      });
      const made = await making;
      // Whichever came first: both have it, or nobody.
      if (made.status === 201) assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);
      else
        await until(
          async () => [...app.keys, ...app.hooks],
          (left) => left.length === 0,
        );
      const removals = db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', forgeId);
      await until(
        () => removals.execute(),
        (rows) => rows.length === 0,
      );
    });
  },
  allowing,
);
