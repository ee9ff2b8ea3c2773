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
    const choice = await tab.get('/ui/projects/new');
    assert.match(choice.text, /href="\/ui\/projects\/new\?organisation=rockets"/);
    const form = await tab.get('/ui/projects/new?organisation=rockets');
    const fields = { do: 'create', name: 'moon', clone_url: 'not an address' };
    const refused = await tab.submit(form, '/ui/projects/new', fields);
    assert.match(refused.text, /aria-current="true"\s*>rockets/, 'a refused form keeps its owner');
    const created = await tab.submit(refused, '/ui/projects/new', { ...fields, clone_url: 'git@example.org:a/b.git' });
    const moon = (await owner.get('/projects')).list.find(({ name }) => name === 'moon');
    assert.equal(created.status, 303, created.text);
    const [{ id } = { id: 0n }] = (await owner.get('/organisations')).list;
    assert.equal(moon?.organisation_id, id);

    // Its variables are changed there, and nothing is lost that was not shown.
    const [shared] = (await owner.get(`/organisations/${id}/environment_variables`)).list;
    const variablePath = `${path}/variables/${shared?.id}`;
    const hiddenForm = await tab.get(variablePath);
    assert.doesNotMatch(hiddenForm.text, /not-on-the-page/);
    const renamed = await tab.submit(hiddenForm, variablePath, { do: 'save', name: 'RENAMED', content: '' });
    assert.equal(renamed.headers.location, `${path}?done=saved#variables`);
    const kept = (await owner.get(`/organisations/${id}/environment_variables/${shared?.id}`)).record;
    assert.deepEqual([kept.name, kept.content], ['RENAMED', 'not-on-the-page']);
    assert.match((await tab.get(`${variablePath}?show=1`)).text, /not-on-the-page/);
    assert.equal((await viewer.get(variablePath)).status, 404);
    assert.equal((await stranger.get(variablePath)).status, 404);

    // Registries and dependencies of its own.
    const registry = {
      do: 'add_registry',
      host: 'registry.example.org',
      username: 'robot',
      password: 'not-shown-either',
    };
    assert.equal((await tab.submit(await tab.get(path), path, registry)).status, 303);
    const withRegistry = await tab.get(path);
    assert.match(withRegistry.text, /registry\.example\.org/);
    assert.doesNotMatch(withRegistry.text, /not-shown-either/);
    assert.deepEqual((await owner.get('/registries')).list, []);
    assert.equal((await owner.get(`/registries?organisation_id=${id}`)).list.length, 1);
    assert.equal((await tab.submit(withRegistry, path, { do: 'remove_registry' })).status, 303);
    assert.deepEqual((await owner.get(`/registries?organisation_id=${id}`)).list, []);
    const software = await tab.get('/ui/dependencies/new?organisation=rockets');
    const dependency = { do: 'create', name: 'fuel', command: './configure --prefix=/srv/dependency && make install' };
    assert.equal((await tab.submit(software, '/ui/dependencies/new', dependency)).status, 303);
    assert.match((await tab.get(path)).text, />fuel</);

    // Every page switches between the account and the organisations.
    for (const address of ['/ui/', path, '/ui/organisations'])
      assert.match((await tab.get(address)).text, /<details class="switch">[^]*href="\/ui\/organisations\/rockets"/);

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
