import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitCredential, gitOriginAt, isOpened } from '../../../src/server/forges/git-credential.ts';
import type { PollOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { FakeForge, forgeToken } from '../../support/fake-forge.ts';
import { describeWithRunner } from '../../support/runner.ts';

test('each forge wants a user name of its own beside a token', () => {
  const cases = [
    ['github', 'https://github.com', 'abc', 'x-access-token', 'abc'],
    ['gitlab', 'https://gitlab.com', 'abc', 'oauth2', 'abc'],
    ['gitea', 'https://git.example.org', 'abc', 'ada', 'abc'],
    ['bitbucket', 'https://bitbucket.org', 'abc', 'x-token-auth', 'abc'],
    ['bitbucket', 'https://bitbucket.org', 'ada@example.org:abc', 'x-bitbucket-api-token-auth', 'abc'],
    ['bitbucket', 'https://git.example.org', 'abc', 'ada', 'abc'],
    ['bitbucket', 'https://git.example.org', 'grace:abc', 'grace', 'abc'],
  ] as const;
  for (const [provider, url, token, username, password] of cases)
    assert.deepEqual(gitCredential({ provider, url, login: 'ada' }, token), { username, password });
});

test('a token goes to the origin of its forge, and to the one that the forge told at the same host', () => {
  const url = 'https://git.example.org:3000/forge';
  const told = 'https://git.example.org:3443/forge/team/app.git';
  assert.equal(gitOriginAt({ url }, told), 'https://git.example.org:3443');
  for (const other of [
    'https://evil.example.org/team/app.git',
    'git@git.example.org:team/app.git',
    'http://git.example.org/x/y',
    '',
  ])
    assert.equal(gitOriginAt({ url }, other), '', other);
  const opened = (address: string): boolean => isOpened({ url }, 'https://git.example.org:3443', address);
  for (const address of [told, 'https://GIT.example.org:3000/team/app', 'https://git.example.org:3443/other/place'])
    assert.equal(opened(address), true, address);
  for (const address of [
    'https://git.example.org/team/app.git',
    'https://git.example.org:3001/team/app.git',
    'https://git.example.org.evil.org:3000/team/app.git',
    'ssh://git@git.example.org:3000/team/app.git',
  ])
    assert.equal(opened(address), false, address);
  assert.equal(isOpened({ url }, '', told), false);
  assert.equal(isOpened({ url: 'https://git.example.org' }, '', 'https://git.example.org:443/team/app'), true);
});

describeWithRunner(
  'the token of a connected forge',
  (service, runner) => {
    test('goes with what is fetched over HTTPS from the forge, and with nothing else [promise: forge-tokens]', async () => {
      await using forge = await FakeForge.start('gitea', 'team/tool');
      const own = 'https://127.0.0.1:8443/team/app.git';
      forge.add('team/app', { ssh: '', https: own });
      forge.add('team/lib', { ssh: '', https: 'https://elsewhere.example.org/team/lib.git' });
      const alice = await service.user();
      const { id: forgeId } = (await alice.post('/forges', forge.fields)).record;
      const make = (repository: string) =>
        alice.post('/projects', { forge_id: forgeId, repository, poll_interval: '60' });
      const misled = await make('team/lib');
      assert.equal(misled.status, 403);
      assert.match(misled.text, /no git address over SSH, and none over HTTPS at its own host/);
      const made = await make('team/app');
      assert.deepEqual([made.status, made.record.clone_url], [201, own], made.text);

      /** What is sent with a fetch of this project, and with a poll. */
      const sent = async (project: Record_) => {
        await alice.requestBuild(project, 'main');
        const task = await runner.take('fetch_commit');
        assert.equal(task.order.work.source.projectId, String(project.id));
        await task.finish({ kind: 'unfetchable', reason: 'key_refused' });
        const due = { next_poll_at: 0n };
        await service.store.db.transaction((trx) => trx.updateTable('polls').set(due).execute());
        const polls: PollOrder[] = await runner.dispatch.polls(runner.self, { room: 64 }, AbortSignal.abort());
        const poll = polls.find(({ source }) => source.projectId === String(project.id));
        assert.ok(poll);
        assert.deepEqual(poll.source.credential, task.order.work.source.credential);
        return poll.source.credential;
      };
      const token = { username: 'ada', password: forgeToken };
      assert.deepEqual(await sent(made.record), token);

      // The same repository over SSH needs none.
      const change = (clone: string) => alice.put(`/projects/${made.record.id}`, { clone_url: clone });
      assert.equal((await change('git@127.0.0.1:team/app.git')).record.forge_state, 'connected');
      assert.equal(await sent(made.record), undefined);
      await change(own);
      assert.deepEqual(await sent(made.record), token);

      // Another port of the same host is somebody else's, unless the forge itself told it.
      for (const clone of ['https://127.0.0.1:9443/team/app.git', 'https://127.0.0.1/team/app.git']) {
        const moved = await change(clone);
        assert.deepEqual([moved.record.forge_state, moved.record.forge_id], ['none', null], clone);
        assert.equal(await sent(made.record), undefined);
        // Connected again it stays there: the forge told another port.
        const again = await alice.post(`/projects/${made.record.id}/connect`, { forge_id: forgeId });
        assert.equal(again.record.forge_state, 'connected', again.text);
        assert.equal(await sent(made.record), undefined);
        assert.equal((await alice.put(`/projects/${made.record.id}`, { description: clone })).record.forge_id, forgeId);
        assert.equal((await change(own)).record.forge_state, 'connected');
        assert.deepEqual(await sent(made.record), token);
      }
      await change('git@127.0.0.1:team/app.git');
      assert.equal((await change('https://127.0.0.1:9443/team/app.git')).record.forge_state, 'none');
      await change(own);
      await alice.post(`/projects/${made.record.id}/connect`, { forge_id: forgeId });

      // Whatever the forge says of its addresses, another host is sent nothing.
      const address = 'https://forge.example.org/team/tool.git';
      const tool = await alice.createProject({ clone_url: address, repository_url: '', poll_interval: '60' });
      const connected = await alice.post(`/projects/${tool.id}/connect`, { forge_id: forgeId });
      assert.deepEqual([connected.status, connected.record.forge_state], [200, 'connected'], connected.text);
      assert.equal(await sent(tool), undefined);

      // Nor is another repository of this host, whose project is not connected.
      const beside = { clone_url: 'https://127.0.0.1:8443/team/lib.git', repository_url: '', poll_interval: '60' };
      assert.equal(await sent(await alice.createProject(beside)), undefined);
      assert.equal((await change('https://127.0.0.1:8443/team/other.git')).record.forge_state, 'none');
      assert.equal(await sent(made.record), undefined);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
