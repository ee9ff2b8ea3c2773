import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { allRoutes } from '../../../src/server/ui/index.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { failAndKeep, staysThere } from '../../support/shells.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { seen } from '../../support/workflows.ts';
import { buildWorld, type World } from '../../support/world.ts';

/** What no page of a project or of a dependency may do, tried on every one that is served: also on those that come later. */

const markup = `"'><img src=x onerror=alert(1)><script>alert(2)</script>&`;
const pages = allRoutes.filter(({ path }) => /:(?:project|dependency)_id/.test(path));

describeServiceOnOne('every page of a project', (service, database) => {
  let alice: User;
  let world: World;
  let tab: Tab;
  let stranger: Tab;
  before(async () => {
    alice = await service.user();
    world = await buildWorld(service, alice);
    await failAndKeep(service.store, world); // for the page of its shell
    await staysThere(service.store, database);
    [tab, stranger] = [new Tab(service), new Tab(service)];
    await tab.signIn(alice.credentials);
    await stranger.signIn((await service.user()).credentials);
    const named: [string, Record<string, string>][] = [
      ['/projects/:project_id', { name: markup, description: markup }],
      ['/projects/:project_id/suites/:suite_id', { name: markup, description: markup, command: markup }],
      ['/projects/:project_id/suites/:suite_id/rules/:rule_id', { value: markup }],
      ['/projects/:project_id/suites/:suite_id/environment_variables/:environment_variable_id', { content: markup }],
      ['/projects/:project_id/environment_variables/:environment_variable_id', { content: markup }],
      ['/projects/:project_id/deploy_strategies/:deploy_strategy_id', { name: markup }],
      ['/dependencies/:dependency_id', { name: markup, description: markup, launch_command: markup }],
    ];
    for (const [route, fields] of named) {
      const { status, text } = await alice.put(world.path(route), fields);
      assert.equal(status, 200, `${route}: ${text}`);
    }
    const said = {
      message: `${markup}\n\n${markup}`,
      scm_author_name: markup,
      scm_author_email: markup,
      branch: markup,
    };
    const lists = {
      branches: JSON.stringify([markup]),
      tags: JSON.stringify([markup]),
      files: JSON.stringify([markup]),
    };
    const job = { 'runs-on': markup, steps: [{ name: markup, uses: markup, run: markup }] };
    const text = JSON.stringify({ on: ['push', markup], jobs: { [markup]: job } });
    await seen(service, world.project, [
      { path: `${markup}.yml`, text },
      { path: markup, problem: markup },
    ]);
    const commit = BigInt(world.path(':commit_id'));
    await service.store.db.transaction((trx) =>
      trx
        .updateTable('commits')
        .set({ ...said, ...lists })
        .where('id', '=', commit)
        .execute(),
    );
  });
  const gets = pages.filter(({ method }) => method === 'GET');
  const posts = pages.filter(({ method }) => method === 'POST');

  test('shows what strangers can name as text, and stands in nobody’s frame [promise: browser-credentials]', async () => {
    assert.ok(gets.length > 20);
    for (const { path } of gets) {
      const { status, text, headers } = await tab.get(world.path(path));
      assert.equal(status, 200, path);
      assert.ok(text.includes('&lt;img src=x') || path.includes('dependenc'), `${path} shows the name`);
      assert.doesNotMatch(text, /<img src=x|<script(?! type="module" nonce="[^"]{24}" src="\/ui\/)/, path);
      const withoutValues = text.replaceAll(/="[^"]*"/g, '=""');
      assert.doesNotMatch(withoutValues, /<[^>]*\s(?:on\w+|style)=/, path);
      assert.match(String(headers['content-security-policy']), /frame-ancestors 'none'/, path);
      assert.equal(headers['x-frame-options'], 'DENY', path);
    }
  });

  test('is not there for another account [promise: account-walls]', async () => {
    for (const { path } of gets) assert.equal((await stranger.get(world.path(path))).status, 404, path);
    const [, key = ''] = /name="form_key" value="([\w-]+)"/.exec((await stranger.get('/ui/')).text) ?? [];
    for (const { path, takesFile } of posts) {
      const address = world.path(path);
      const sent = takesFile
        ? stranger.post(`${address}?form_key=${key}`, {})
        : stranger.post(address, { form_key: key, do: 'delete' });
      assert.ok([404, 403].includes((await sent).status), path);
    }
  });

  test('takes no form of another site, nor one without its key [promise: browser-credentials]', async () => {
    assert.ok(posts.length > 10);
    for (const { path } of posts) {
      const address = world.path(path);
      for (const action of ['delete', 'save', 'create', 'run', 'cancel', 'share']) {
        assert.equal((await tab.post(address, { do: action })).status, 403, `${action} on ${path}`);
      }
    }
    const own = await tab.get(world.path('/ui/projects/:project_id/settings/delete'));
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://elsewhere.example' }]) {
      const sent = await tab.submit(own, world.path('/ui/projects/:project_id/settings/delete'), {}, headers);
      assert.equal(sent.status, 403);
    }
    assert.equal((await alice.get(world.path('/projects/:project_id'))).status, 200);
  });
});
