import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeForge, type Dialect } from '../../support/fake-forge.ts';
import { publicly } from '../../support/public-forge.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

/** Where forges differ from each other, or do more than is written at first sight. */
describeServiceOnOne(
  'the habits of forges',
  (service) => {
    const connect = async (forge: FakeForge, fields = forge.fields): Promise<{ alice: User; id: bigint }> => {
      const alice = await service.user();
      const made = await alice.post('/forges', fields);
      assert.equal(made.status, 201, made.text);
      return { alice, id: made.record.id };
    };
    const namesFound = async (alice: User, id: bigint, query: string, page = 1) =>
      (await alice.get(`/forges/${id}/repositories?query=${query}&page=${page}`)).list.map((one) => one.full_name);

    for (const dialect of ['github', 'gitlab', 'gitea', 'center', 'cloud'] as Dialect[])
      test(`${dialect}: a hook that lacks an event is replaced by connect`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const { alice, id } = await connect(forge, dialect === 'cloud' ? publicly(t, forge) : forge.fields);
        const { record: project } = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
        const app = forge.of('team/app');
        const all = app.hooks[0]?.events ?? [];
        assert.ok(all.length >= 2);
        for (const lacking of all) {
          app.hooks = app.hooks.map((hook) => ({ ...hook, events: all.filter((event) => event !== lacking) }));
          const mended = await alice.post(`/projects/${project.id}/connect`);
          assert.equal(mended.status, 200, mended.text);
          assert.deepEqual(
            app.hooks.map(({ events }) => events),
            [all],
            lacking,
          );
        }
        const [before] = app.hooks;
        await alice.post(`/projects/${project.id}/connect`);
        assert.deepEqual(app.hooks, [before], 'one that is whole stays');
      });

    test('a project that is not connected has to be told its forge', async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const { status, body } = await alice.post(`/projects/${project.id}/connect`);
      assert.deepEqual([status, body.error], [403, { forge_id: ['is_blank'] }]);
    });

    test('gitea: among more than 50 keys and hooks those of the project are found', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const { alice, id } = await connect(forge);
      const app = forge.of('team/app');
      const others = Array.from({ length: 120 }, (_, at) => at + 1000);
      app.keys = others.map((at) => ({ id: at, title: String(at), key: `ssh-ed25519 K${at}`, readOnly: true }));
      app.hooks = others.map((at) => ({ id: at, url: `http://x/${at}`, secret: '', active: true, events: ['push'] }));
      const { record: project } = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
      assert.deepEqual([app.keys.length, app.hooks.length], [121, 121]);
      const again = await alice.post(`/projects/${project.id}/connect`);
      assert.equal(again.status, 200, again.text);
      assert.deepEqual([app.keys.length, app.hooks.length], [121, 121]);
      assert.equal((await alice.delete(`/projects/${project.id}`)).status, 200);
      assert.deepEqual([app.keys.length, app.hooks.length], [120, 120]);
    });

    test('gitea: a search finds the repositories of an owner too', async () => {
      await using forge = await FakeForge.start('gitea', 'harbour/app', 'harbour/lib', 'other/harbour', 'other/x');
      forge.pageSize = 50;
      const { alice, id } = await connect(forge);
      const sorted = async (query: string) =>
        (await namesFound(alice, id, query)).map(String).toSorted((a, b) => a.localeCompare(b));
      assert.deepEqual(await sorted('harbour'), ['harbour/app', 'harbour/lib', 'other/harbour']);
      assert.deepEqual(await sorted('harbour/lib'), ['harbour/lib']);
      assert.deepEqual(await sorted('lib'), ['harbour/lib']);
    });

    test('github: a search finds what is behind the first 500, by a part of its name and by all of it', async () => {
      await using forge = await FakeForge.start('github');
      for (let at = 0; at < 900; at += 1) forge.add(`team/app${at}`);
      forge.pageSize = 100;
      const { alice, id } = await connect(forge);
      assert.deepEqual(await namesFound(alice, id, 'pp888'), ['team/app888']);
      forge.calls.length = 0;
      assert.deepEqual(await namesFound(alice, id, 'team/app888'), ['team/app888']);
      assert.equal(forge.calls.length, 1);
      assert.deepEqual(await namesFound(alice, id, 'nowhere'), []);
      forge.add('team/theirs', { push: false });
      assert.deepEqual(await namesFound(alice, id, 'team/theirs'), []);
    });

    test('gitlab: a role in a parent group, or in an invited one, is a role', async () => {
      await using forge = await FakeForge.start('gitlab');
      forge.add('group/below/app', { admin: false, push: true, inherited: true });
      forge.add('group/below/lib', { admin: false, push: true });
      const { alice, id } = await connect(forge);
      const { list } = await alice.get(`/forges/${id}/repositories`);
      assert.deepEqual(
        list.map((one) => [one.full_name, one.may_administer]),
        [
          ['group/below/app', true],
          ['group/below/lib', false],
        ],
      );
      const make = (repository: string) => alice.post('/projects', { forge_id: id, repository });
      assert.equal((await make('group/below/app')).status, 201);
      const refused = await make('group/below/lib');
      assert.deepEqual([refused.status, refused.body.error], [403, { repository: ['invalid_format'] }]);
    });

    test('https where plain HTTP answers is told in words', async () => {
      await using forge = await FakeForge.start('gitea');
      const alice = await service.user();
      const { status, body, text } = await alice.post('/forges', {
        ...forge.fields,
        url: forge.url.replace('http:', 'https:'),
      });
      assert.deepEqual([status, body.error], [403, { url: ['invalid_format'] }], text);
      assert.match(text, /answers in plain HTTP, and not over TLS/);
      assert.doesNotMatch(text, /ssl|OpenSSL|wrong version/);
    });

    test('the address of an API and blanks around a token are understood, and another program is told in words', async () => {
      await using forge = await FakeForge.start('gitlab');
      const alice = await service.user();
      const token = ` ${forge.fields.token} `;
      const made = await alice.post('/forges', { provider: 'gitlab', url: `${forge.url}/api/v4/`, token });
      assert.deepEqual([made.status, made.record.url], [201, forge.url], made.text);
      const { status, text } = await alice.post('/forges', { ...forge.fields, provider: 'gitea' });
      assert.equal(status, 403);
      assert.match(text, /No Gitea or Forgejo answers at http:[^ ]+\. Check the provider and the address\./);
    });

    test('links go to the address of the forge, whatever the one for git is', async () => {
      for (const [dialect, commit] of [
        ['gitea', '/team/app/commit/'],
        ['gitlab', '/team/app/-/commit/'],
        ['center', '/projects/team/repos/app/commits/'],
      ] as const) {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const { alice, id } = await connect(forge);
        const { record: project } = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
        const links = (await alice.get(`/projects/${project.id}/forge_links`)).record;
        assert.deepEqual([links.host, links.commit_url], [new URL(forge.url).host, `${forge.url}${commit}`]);
      }
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
