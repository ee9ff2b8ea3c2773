import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeForge, forgeToken } from '../support/fake-forge.ts';
import { describeServiceOnOne } from '../support/service.ts';
import { Tab } from '../support/tab.ts';

describeServiceOnOne(
  'pages of forges',
  (service) => {
    test('connect a forge, build a repository of it with one button, and disconnect it', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app', 'team/lib');
      const alice = await service.user();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const send = async (path: string, fields: Record<string, string>) =>
        tab.submit(await tab.get(path), path, fields);
      const fields = { do: 'connect', provider: 'gitea', url: forge.url, token: 'wrong-token' };
      const refused = await send('/ui/account/forges', fields);
      assert.match(refused.text, /401: Bad credentials A token needs the scopes write:repository and read:user/);
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
      assert.doesNotMatch((await tab.get('/ui/')).text, /incomplete at its forge|>\s*Mend\s*</);
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
      assert.match(told, /lib<\/a> is incomplete at its forge\. The hook is missing at the forge\./);
      assert.doesNotMatch(told, />\s*Mend\s*</);
      assert.match((await tab.get('/ui/')).text, />\s*Mend\s*</);
      const mend = { do: 'connect', project_id: String(project?.id), forge_id: String(connected?.id) };
      forge.interfere = () => ({ status: 503, body: { message: 'Back soon' } });
      assert.match((await send('/ui/', mend)).text, /503: Back soon/);
      forge.interfere = () => undefined;
      await send('/ui/', mend);
      assert.equal(lib.hooks.length, 1);
      assert.doesNotMatch((await tab.get('/ui/')).text, /incomplete at its forge/);
      assert.match(
        (await tab.get('/ui/projects/new?query=lib')).text,
        new RegExp(`/ui/projects/${project?.id}">Its project`),
      );
      forge.interfere = () => ({ status: 503, body: { message: 'Back soon' } });
      assert.match((await tab.get('/ui/projects/new')).text, /503: Back soon[^]*Repository address/);
      forge.interfere = () => undefined;
      await send(`/ui/account/forges/${connected?.id}/delete`, { do: 'delete' });
      assert.deepEqual((await alice.get('/forges')).list, []);
      assert.match((await tab.get('/ui/account')).text, /No forge is connected/);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
