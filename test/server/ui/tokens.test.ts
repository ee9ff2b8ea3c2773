import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeServiceOnOne('the pages of the account', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  test('make a token, show it once, list it and remove it', async () => {
    const path = '/ui/account/tokens';
    const markup = '<b>Sluice</b>';
    const project = await alice.createProject({ name: markup });
    await alice.createProject({ name: 'Weir' });
    const form = await tab.get(`${path}/new`);
    const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    assert.match(form.text, new RegExp(`type="date"\\s+value="${inDays(90)}"`));

    assert.doesNotMatch(form.text, /name="(?:scopes|project_ids)\[\]"[^>]*checked/);

    const fields = { do: 'make', name: 'Night script', 'project_ids[]': project.id_str };
    const none = await tab.submit(form, `${path}/new`, { ...fields, expires_at: inDays(400) });
    assert.equal(none.status, 403);
    assert.match(none.text, /It may is missing/);
    assert.match(none.text, /Choose a day within the next 366 days/);
    assert.match(none.text, /value="Night script"/);

    const made = await tab.submit(form, `${path}/new`, { ...fields, 'scopes[]': 'projects', expires_at: inDays(5) });
    const [, token = ''] = /id="token">([^<]+)</.exec(made.text) ?? [];
    assert.match(token, /^hrt_/);
    const listed = await service.api.get('/projects', { headers: { authorization: `Bearer ${token}` } });
    assert.deepEqual(
      listed.list.map(({ id }) => id),
      [project.id],
    );

    const page = await tab.get(path);
    for (const shown of ['Night script', '<code>projects</code>', '&lt;b&gt;Sluice&lt;/b&gt;', inDays(5)])
      assert.ok(page.text.includes(shown), shown);
    assert.ok(!page.text.includes('Weir') && !page.text.includes('hrt_'));
    const removed = await tab.submit(page, path, { do: 'remove' });
    assert.deepEqual([removed.status, removed.headers.location], [303, `${path}?done=deleted`]);
    assert.equal((await service.api.get('/whoami', { headers: { authorization: `Bearer ${token}` } })).status, 401);
    assert.ok(!service.log.includes(token));
  });

  test('name the tokens that end soon on the dashboard', async () => {
    const end = new Date(Date.now() + 2 * 86_400_000).toISOString();
    await alice.post('/tokens', { name: 'Old script', 'scopes[]': 'user', expires_at: end });
    assert.match((await tab.get('/ui/')).text, /<strong>Old script<\/strong>, on/);
  });

  test('turn news by e-mail off and on', async () => {
    const isOn = async (): Promise<unknown> => (await alice.get('/account/news')).record.by_email;
    const action = '/ui/account/news';
    assert.match((await tab.get('/ui/account')).text, /name="by_email"[^>]*checked/);
    await tab.submit(await tab.get('/ui/account'), action);
    assert.equal(await isOn(), false);
    const page = await tab.get('/ui/account?done=saved');
    assert.match(page.text, /Saved\./);
    assert.doesNotMatch(page.text, /name="by_email"[^>]*checked/);
    await tab.submit(page, action, { by_email: 'true' });
    assert.equal(await isOn(), true);
  });

  test('delete the account with its password, and say what stands in the way', async () => {
    const path = '/ui/account/delete';
    const bob = await service.user();
    const his = new Tab(service);
    await his.signIn(bob.credentials);
    const project = await bob.createProject();
    const { password } = bob.credentials;
    const form = await his.get(path);
    for (const [typed, told] of [
      ['', /The password is wrong/],
      ['wrong', /The password is wrong/],
      [password, /Hand over or delete the projects first/],
    ] as const) {
      const refused = await his.submit(form, path, { password: typed });
      assert.ok(refused.status >= 400);
      assert.match(refused.text, told);
    }
    assert.equal((await bob.get('/whoami')).status, 200);
    // The API asks for the password, whatever the session of the same user.
    assert.equal((await bob.delete('/account')).status, 403);
    await bob.delete(`/projects/${project.id}`);
    const left = await his.submit(form, path, { password });
    assert.deepEqual([left.status, left.headers.location], [303, '/ui/sign-in']);
    assert.equal((await his.get('/ui/account')).status, 303);
    assert.equal((await bob.get('/whoami')).status, 401);
  });
});
