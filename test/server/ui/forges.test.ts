import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { FakeForge, forgeToken } from '../../support/fake-forge.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

describeServiceOnOne(
  'pages of forges',
  (service, database) => {
    test('connect a forge, build a repository of it with one button, and disconnect it', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app', 'team/lib');
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const send = async (path: string, fields: Record<string, string>) =>
        tab.submit(await tab.get(path), path, fields);
      const fields = { do: 'connect', provider: 'gitea', url: forge.url, token: 'wrong-token' };
      const refused = await send('/ui/account/forges', fields);
      assert.match(refused.text, /401: Bad credentials\. A token needs the scopes write:repository and read:user/);
      assert.ok(!refused.text.includes('wrong-token'));
      await send('/ui/account/forges', { ...fields, token: forgeToken });
      const account = await tab.get('/ui/account');
      assert.match(account.text, /Gitea or Forgejo/);
      assert.match(account.text, />\s*Check\s*</);
      assert.match(account.text, />Replace token</);
      assert.match(account.text, />Disconnect</);
      const page = await tab.get('/ui/projects/new');
      assert.match(page.text, /team\/app[^]*>\s*Build\s*<[^]*team\/lib/);
      const [connected] = (await alice.get('/forges')).list;
      const form = { do: 'build', forge_id: String(connected?.id), repository: 'team/lib' };
      await send('/ui/projects/new', form);
      const [project] = (await alice.get('/projects')).list;
      assert.deepEqual([project?.name, project?.forge_state], ['lib', 'connected']);
      // Nobody has to install a key, and what is missing later is put there again with one button.
      const setup = (await tab.get(`/ui/projects/${project?.id}/setup`)).text;
      assert.match(setup, /is at the forge of <code>team\/lib<\/code>[^]*Check connection/);
      assert.doesNotMatch(setup, /Deploy keys|ssh-ed25519/);
      assert.doesNotMatch((await tab.get('/ui/')).text, /incomplete at its forge|>\s*Fix\s*</);
      const lib = forge.of('team/lib');
      lib.hooks = [];
      const link = { forge_state: 'incomplete', forge_state_reason: 'The hook is missing at the forge.' };
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('projects')
          .set(link)
          .where('id', '=', BigInt(String(project?.id)))
          .execute(),
      );
      const bob = await service.user();
      if (project) await alice.invite(project, bob);
      const other = new Tab(service);
      await other.signIn(bob.credentials);
      const told = (await other.get('/ui/')).text;
      assert.match(told, /lib<\/a> is incomplete at its forge\.\s+The hook is missing at the forge\./);
      assert.doesNotMatch(told, />\s*Fix\s*</);
      assert.match((await tab.get('/ui/')).text, />\s*Fix\s*</);
      const mend = { do: 'connect', project_id: String(project?.id), forge_id: String(connected?.id) };
      forge.interfere = () => ({ status: 503, body: { message: 'Back soon' } });
      assert.match((await send('/ui/', mend)).text, /503: Back soon/);
      forge.interfere = () => undefined;
      lib.archived = true;
      const archived =
        /is archived, so nothing can be added to it\. Unarchive it at the forge, then repair the connection\./;
      assert.match((await send('/ui/', mend)).text, archived);
      assert.match((await other.get('/ui/')).text, archived);
      lib.archived = false;
      await send('/ui/', mend);
      assert.equal(lib.hooks.length, 1);
      assert.doesNotMatch((await tab.get('/ui/')).text, /incomplete at its forge/);
      assert.match(
        (await tab.get('/ui/projects/new?query=lib')).text,
        new RegExp(`/ui/projects/${project?.id}"[^>]*>Open project`),
      );
      forge.interfere = () => ({ status: 503, body: { message: 'Back soon' } });
      assert.match((await tab.get('/ui/projects/new')).text, /503: Back soon[^]*Repository address/);
      forge.interfere = () => undefined;
      const disconnecting = await tab.get(`/ui/account/forges/${connected?.id}/delete`);
      assert.match(disconnecting.text, /so are the key, the hook and the statuses of\s+<strong>lib<\/strong>/);
      await send(`/ui/account/forges/${connected?.id}/delete`, { do: 'delete' });
      assert.deepEqual((await alice.get('/forges')).list, []);
      assert.match((await tab.get('/ui/account')).text, /No forge is connected/);
    });

    test('show the list of the forge that was connected last, and a token with too few rights', async () => {
      await using first = await FakeForge.start('gitea', 'team/app');
      await using second = await FakeForge.start('gitlab', 'group/other');
      second.scopes = 'read_api';
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      await alice.post('/forges', first.fields);
      const form = { do: 'connect', ...second.fields };
      const page = await tab.submit(await tab.get('/ui/projects/new'), '/ui/projects/new', form);
      const { location } = page.headers;
      const { text } = await tab.get(location ?? '');
      assert.match(text, /group\/other/);
      assert.match(text, /Gitea or Forgejo at 127[^]*GitLab at 127/);
      const account = (await tab.get('/ui/account')).text.replaceAll(/\s+/g, ' ');
      assert.match(account, /incomplete<\/span> The token lacks the scope api/i);
    });

    test('say that a forge is connected twice with one login', async () => {
      await using forge = await FakeForge.start('gitlab');
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const twice = /GitLab at \S+ is connected twice as ada/g;
      await alice.post('/forges', forge.fields);
      assert.doesNotMatch((await tab.get('/ui/account')).text, twice);
      await alice.post('/forges', forge.fields);
      assert.equal((await tab.get('/ui/account')).text.match(twice)?.length, 1);
    });

    test('do not wait for a forge that is silent, and name it', async () => {
      await using silent = await FakeForge.start('gitea', 'team/app');
      await using other = await FakeForge.start('gitlab', 'group/other');
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const { id } = (await alice.post('/forges', silent.fields)).record;
      await alice.post('/forges', other.fields);
      const answers: (() => void)[] = [];
      silent.interfere = () => new Promise((resolve) => answers.push(() => resolve(undefined)));
      const seen = async (query = ''): Promise<string> =>
        (await tab.get(`/ui/projects/new${query}`)).text.replaceAll(/\s+/g, ' ');
      const page = await seen();
      assert.match(page, /Gitea or Forgejo at 127\S+ has not answered within 2\.5 seconds\./);
      assert.match(page, /group\/other<\/code>/);
      assert.ok(page.includes(`<a href="?forge=${id}&amp;wait=1">Ask it again</a>`), page);
      assert.doesNotMatch(await seen(`?forge=${id}`), /group\/other<\/code>/);
      const waiting = seen(`?forge=${id}&wait=1`);
      const before = answers.length;
      while (answers.length === before) await new Promise((resolve) => setImmediate(resolve));
      silent.interfere = () => undefined;
      for (const answer of answers) answer();
      assert.match(await waiting, /team\/app<\/code>/);
    });

    test('list many repositories page by page, and say why one cannot be built, or none is there', async () => {
      const names = Array.from({ length: 5 }, (_, at) => `waterworks/gauge-${at}`);
      await using forge = await FakeForge.start('gitea', ...names);
      forge.of('waterworks/gauge-1').admin = false;
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const { id } = (await alice.post('/forges', forge.fields)).record;
      const at = async (query: string): Promise<string> =>
        (await tab.get(`/ui/projects/new?forge=${id}${query}`)).text.replaceAll(/\s+/g, ' ');
      const first = await at('');
      assert.match(first, /gauge-0<\/code>.*> Build <.*gauge-1<\/code>.*you are no administrator there/);
      assert.match(first, /rel="next">Next<\/a>/);
      assert.doesNotMatch(first, /gauge-2|>Previous</);
      const last = await at('&page=3');
      assert.match(last, /gauge-4<.*rel="prev">Previous<\/a>/);
      assert.doesNotMatch(last, />Next</);
      assert.match(await at('&query=nosuch'), /No repository was found.*“nosuch”/);
      // A forge that does not take the token any more says so, with the way to replace it.
      forge.token = undefined;
      assert.match(await at(''), new RegExp(`Bad credentials.*/forges/${id}#token">Replace token`));
      forge.repositories.clear();
      forge.token = forgeToken;
      assert.match(await at(''), /No repositories.*may push to none/);
    });

    test('show in the settings of a project what its connection made, mend it, and warn before it is deleted', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app', 'team/late');
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const { id } = (await alice.post('/forges', forge.fields)).record;
      const project = (await alice.post('/projects', { forge_id: String(id), repository: 'team/app' })).record;
      const settings = `/ui/projects/${project.id}/settings`;
      const seen = async (path: string): Promise<string> => (await tab.get(path)).text.replaceAll(/\s+/g, ' ');
      assert.match(
        await seen(settings),
        /Gitea or Forgejo at 127.*<code>team\/app<\/code>.*connected.*> Check and fix </,
      );
      assert.match(await seen(settings), /The connection has put this key into the repository/);
      assert.match(await seen(`${settings}/delete`), /Its key, its hook and its statuses are taken away at the forge/);
      const [hook] = (await alice.get(`/projects/${project.id}/hooks`)).list;
      const [target] = (await alice.get(`/projects/${project.id}/status_targets`)).list;
      for (const page of ['triggers', 'triggers/statuses'])
        assert.equal((await seen(`${settings}/${page}`)).match(/made by the connection/g)?.length, 1, page);
      const hookPage = `${settings}/triggers/hooks/${hook?.id}`;
      // Another secret would be one that the forge does not know.
      assert.doesNotMatch(await seen(hookPage), /New secret/);
      assert.match(await seen(`${hookPage}/delete`), /has made this hook<\/strong>, and needs it/);
      const targetPage = `${settings}/triggers/status_targets/${target?.id}`;
      assert.match(await seen(`${targetPage}/delete`), /has made this status target<\/strong>, and needs it/);
      const own = (await alice.post(`/projects/${project.id}/hooks`, { provider: 'gitea' })).record;
      assert.doesNotMatch(await seen(`${settings}/triggers/hooks/${own.id}/delete`), /has made this hook/);

      forge.of('team/app').keys = [];
      const fields = { do: 'connect', forge_id: String(id) };
      const sent = await tab.submit(await tab.get(settings), settings, fields);
      assert.equal(sent.status, 303, sent.text);
      assert.equal(forge.of('team/app').keys.length, 1);
      // One that was set up by hand is connected there.
      const late = (await alice.post('/projects', { name: 'late', clone_url: 'git@forge.example.org:team/late.git' }))
        .record;
      const other = `/ui/projects/${late.id}/settings`;
      assert.match(await seen(other), /not connected to a forge/);
      await tab.submit(await tab.get(other), other, { do: 'connect', forge_id: String(id) });
      assert.match(await seen(other), /<code>team\/late<\/code>.*connected/);
      // Statuses have the names of suites, so a second project there overwrites those of the first.
      assert.doesNotMatch(await seen(other), /overwrites/);
      const twin = await alice.post('/projects', { forge_id: String(id), repository: 'team/late', name: 'twin' });
      assert.equal(twin.status, 201, twin.text);
      const { id: twinId } = twin.record;
      for (const [page, link] of [
        [`/ui/projects/${twinId}/settings`, `/ui/projects/${late.id}">late</a>`],
        [other, `/ui/projects/${twinId}">twin</a>`],
      ] as const) {
        const text = await seen(page);
        assert.ok(text.includes(link), text);
        assert.match(text, /connected to this repository too\. [^.]* overwrites the statuses of the other\./);
      }
      await alice.delete(`/projects/${twinId}`);
      assert.doesNotMatch(await seen(other), /overwrites/);
      // So it is by another connection of the same account, and by another account, whose projects only its people see.
      const { id: again } = (await alice.post('/forges', forge.fields)).record;
      const bob = await service.user();
      const { id: bobs } = (await bob.post('/forges', forge.fields)).record;
      for (const [by, connection] of [
        [alice, again],
        [bob, bobs],
      ] as const) {
        const unconnected = (await by.post('/projects', { name: 'third', clone_url: String(late.clone_url) })).record;
        if (by === bob) {
          assert.doesNotMatch(await seen(other), /overwrites/);
          await bob.invite(unconnected, alice);
        }
        assert.doesNotMatch(await seen(other), /overwrites/, 'it puts no statuses there');
        const connected = await by.post(`/projects/${unconnected.id}/connect`, { forge_id: String(connection) });
        assert.equal(connected.status, 200, connected.text);
        assert.match(
          await seen(other),
          new RegExp(`/ui/projects/${unconnected.id}">third</a> is connected to this repos`),
        );
        await by.delete(`/projects/${unconnected.id}`);
      }
      const hidden = (await bob.post('/projects', { forge_id: String(bobs), repository: 'team/late' })).record;
      assert.equal(hidden.forge_state, 'connected');
      assert.doesNotMatch(await seen(other), /overwrites/, 'its name is not for this reader');
      await alice.delete(`/forges/${again}`);

      const browser = new TestBrowser(database);
      const signIn = (options: Parameters<TestBrowser['open']>[0]) =>
        browser.signIn(service.address, alice.credentials, options);
      forge.token = undefined;
      await alice.post(`/forges/${id}/check`);
      const pages = [
        '/ui/',
        '/ui/projects/new',
        '/ui/account',
        '/ui/account/forges',
        `/ui/account/forges/${id}`,
        `/ui/account/forges/${id}/delete`,
        settings,
        `${settings}/triggers`,
        `${settings}/triggers/statuses`,
      ];
      await assertAccessible(
        signIn,
        pages.map((path) => `${service.address}${path}`),
      );
      // With the token refused nothing can be mended before there is another.
      const page = await signIn({ viewport: { width: 1280, height: 800 } });
      await page.goto(`${service.address}/ui/`);
      await page.getByRole('button', { name: 'Replace token' }).first().click();
      await page.waitForURL(`**/ui/account/forges/${id}?#token`);

      await page.goto(`${service.address}/ui/account/forges`);
      const links = page.getByRole('link', { name: 'make a token' });
      assert.deepEqual(await links.count(), 1, 'of the chosen kind alone');
      await page.getByLabel('Provider').selectOption('gitea');
      await page.getByLabel('Address').fill('https://git.example.org/');
      assert.equal(await links.getAttribute('href'), 'https://git.example.org/user/settings/applications');
      await page.getByText('write:repository, read:user').waitFor();
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
