import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

describeServiceOnOne('the pages of an organisation', (service) => {
  test('make one, invite people, change roles, and hand a project over', async () => {
    const [owner, heir] = [await service.user(), await service.user()];
    const tab = new Tab(service);
    await tab.signIn(owner.credentials);
    const all = await tab.get('/ui/organisations');
    const made = await tab.submit(all, '/ui/organisations', { do: 'create', name: 'rockets', description: 'Fly' });
    assert.equal(made.headers.location, '/ui/organisations/rockets');
    const path = '/ui/organisations/rockets';
    const page = await tab.get(path);
    for (const part of ['Projects', 'Members', 'Variables', 'Forges', 'Runners', 'Audit'])
      assert.match(page.text, new RegExp(`>${part}<`));

    const invited = await tab.submit(page, path, { do: 'invite', email: 'new@example.org', role: 'developer' });
    assert.match(invited.text, /\/ui\/invitation\?token=hri_/);
    const joined = await tab.submit(await tab.get(path), path, {
      do: 'invite',
      email: heir.credentials.email,
      role: 'viewer',
    });
    assert.equal(joined.status, 303, joined.text);
    const variable = { do: 'add_variable', name: 'SHARED', content: 'not-on-the-page', secret: 'true' };
    assert.equal((await tab.submit(await tab.get(path), path, variable)).status, 303);
    assert.doesNotMatch((await tab.get(path)).text, /not-on-the-page/);

    const viewer = new Tab(service);
    await viewer.signIn(heir.credentials);
    const seen = await viewer.get(path);
    assert.match(seen.text, />\s*Leave\s*</);
    assert.doesNotMatch(seen.text, />\s*(?:Invite|Add variable|Audit)\s*</);
    const stranger = new Tab(service);
    await stranger.signIn((await service.user()).credentials);
    assert.equal((await stranger.get(path)).status, 404);

    // The form for a new project asks who owns it.
    const form = await tab.get('/ui/projects/new?organisation=rockets');
    assert.match(form.text, /<option value="\d+" selected>\s*rockets/);
    const project = await owner.createProject();
    const settings = `/ui/projects/${project.id}/settings`;
    const offer = { do: 'offer', email: heir.credentials.email };
    assert.equal((await tab.submit(await tab.get(settings), settings, offer)).status, 303);
    const dashboard = await viewer.get('/ui/');
    const accepted = await viewer.submit(dashboard, '/ui/', { do: 'accept' });
    assert.equal(accepted.headers.location, `/ui/projects/${project.id}`);
    assert.equal((await heir.get(`/projects/${project.id}`)).record.owned, true);
  });
});
