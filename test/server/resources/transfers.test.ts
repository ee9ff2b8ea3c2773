import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRefused } from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { findUser } from '../../../src/server/auth/users.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const missing = { generic: ['not_found'] };

describeService('handing a project over', (service) => {
  const organisationOf = async (owner: User, name: string): Promise<Record_> =>
    (await owner.post('/organisations', { name })).record;
  const accountsOf = async (project: Record_): Promise<bigint[]> => {
    const jobs = service.store.db.read.selectFrom('jobs').innerJoin('build_requests as r', 'r.id', 'jobs.subject_id');
    const rows = await jobs.select('jobs.account_id').where('r.project_id', '=', project.id).execute();
    return rows.map(({ account_id: account }) => account);
  };

  test('to an organisation goes at once, with what runs, hooks, keys and collaborators', async () => {
    const [owner, colleague, stranger] = [await service.user(), await service.user(), await service.user()];
    const project = await owner.createProject({ poll_interval: '60' });
    const path = `/projects/${project.id}`;
    const hook = (await owner.post(`${path}/hooks`, { provider: 'generic' })).record;
    await owner.invite(project, colleague);
    const dependency = await owner.createDependency();
    const suite = await owner.createSuite(project);
    await owner.post(`${path}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
    await owner.requestBuild(project);
    const team = await organisationOf(owner, `ours-${project.id}`);
    const theirs = await organisationOf(stranger, `theirs-${project.id}`);
    const to = (organisation: Record_) => ({ organisation_id: organisation.id });

    assertRefused(await owner.post(`${path}/transfer`, to(theirs)), 404, { organisation_id: ['not_found'] });
    assertRefused(await owner.post(`${path}/transfer`), 403, { email: ['is_blank'] });
    assertRefused(await colleague.post(`${path}/transfer`, to(team)), 401, { generic: ['unauthorized'] });
    await owner.post('/projects', {
      name: String(project.name),
      repository_url: 'git@example.org:a/b.git',
      ...to(team),
    });
    assertRefused(await owner.post(`${path}/transfer`, to(team)), 403, { name: ['already_exists'] });
    const [namesake] = (await owner.get(`/projects?organisation_id=${team.id}`)).list;
    await owner.put(`/projects/${namesake?.id}`, { name: 'another' });

    const given = await owner.post(`${path}/transfer`, to(team));
    assert.equal(given.status, 200, given.text);
    assert.equal(given.record.organisation_id, team.id);
    assert.deepEqual(await accountsOf(project), [team.id]);
    assert.equal((await owner.get(`${path}/hooks/${hook.id}`)).record.url, hook.url);
    assert.equal((await owner.get(path)).record.ssh_public_key, project.ssh_public_key);
    assert.equal((await colleague.get(path)).status, 200);
    assert.equal((await owner.get(path)).record.owned, true);
    const pins = service.store.db.read.selectFrom('dependency_pins').select('name');
    assert.equal((await pins.where('dependency_id', '=', dependency.id).execute()).length, 1);

    // Back to a person, who has to accept.
    assert.equal((await owner.post(`${path}/transfer`, { email: stranger.credentials.email })).status, 200);
    assertRefused(await stranger.get(path), 404, missing);
    assert.equal((await owner.get(path)).record.organisation_id, team.id);
    assert.equal((await owner.delete(`${path}/transfer`)).status, 200);
    assertRefused(await stranger.post(`${path}/accept`), 404, missing);
  });

  test('to a person waits until they accept, and only for them', async () => {
    const [owner, heir, other] = [await service.user(), await service.user(), await service.user()];
    const project = await owner.createProject();
    const path = `/projects/${project.id}`;
    await owner.requestBuild(project);
    assertRefused(await owner.post(`${path}/transfer`, { email: 'nobody@example.org' }), 404, { email: ['not_found'] });
    assert.equal((await owner.post(`${path}/transfer`, { email: heir.credentials.email })).record.owned, true);
    assertRefused(await heir.get(path), 404, missing);
    assertRefused(await other.post(`${path}/accept`), 404, missing);
    const accepted = await Promise.all([heir.post(`${path}/accept`), heir.post(`${path}/accept`)]);
    // The second one is told to try again, or that there is nothing.
    const [first, second] = accepted.map(({ status }) => status).toSorted((a, b) => a - b);
    assert.ok(first === 200 && (second === 403 || second === 404));
    assertRefused(await heir.post(`${path}/accept`), 404, missing);
    assertRefused(await owner.get(path), 404, missing);
    assert.equal((await heir.get(path)).record.owned, true);
    const person = await findUser(service.store.db.read, heir.credentials.email);
    assert.deepEqual(await accountsOf(project), [person?.id]);
  });

  test('is no longer possible for somebody who was removed after offering', async () => {
    const [owner, leaver, heir] = [await service.user(), await service.user(), await service.user()];
    const team = await organisationOf(owner, `left-${Date.now()}`);
    const members = `/organisations/${team.id}/members`;
    const member = (await owner.post(members, { email: leaver.credentials.email, role: 'maintainer' })).record;
    const project = (
      await owner.post('/projects', { name: 'p', repository_url: 'git@example.org:a/b.git', organisation_id: team.id })
    ).record;
    await leaver.post(`/projects/${project.id}/transfer`, { email: heir.credentials.email });
    await owner.delete(`${members}/${member.id}`);
    assertRefused(await heir.post(`/projects/${project.id}/accept`), 404, missing);
    assert.equal((await owner.get(`/projects/${project.id}`)).status, 200);
  });

  test('back and forth, at once, leaves it with one owner', async () => {
    const owner = await service.user();
    const project = await owner.createProject();
    const teams = [await organisationOf(owner, `a-${project.id}`), await organisationOf(owner, `b-${project.id}`)];
    for (let round = 0; round < 3; round += 1) {
      const calls = [...teams, ...teams].map((team) =>
        owner.post(`/projects/${project.id}/transfer`, { organisation_id: team.id }),
      );
      await owner.requestBuild(project);
      for (const answer of await Promise.all(calls)) assert.ok([200, 403].includes(answer.status), answer.text);
    }
    const holder = (await owner.get(`/projects/${project.id}`)).record.organisation_id;
    assert.ok(teams.some(({ id }) => id === holder));
    for (const account of await accountsOf(project)) assert.equal(account, holder);
  });
});

describeService('an account', (service) => {
  test('is deleted with its password once it owns nothing, and nobody can use it again', async () => {
    const [person, other] = [await service.user(), await service.user()];
    const { password } = person.credentials;
    const gone = (sent: string) => {
      return service.api.ask('DELETE', '/account', {
        as: person.credentials,
        form: { password: sent },
      });
    };
    assert.deepEqual((await gone('wrong')).body.error, { password: ['invalid_format'] });
    const project = await person.createProject();
    const team = (await person.post('/organisations', { name: `alone-${project.id}` })).record;
    const shared = await other.createProject();
    await other.invite(shared, person);
    assert.deepEqual((await gone(password)).body.error, { generic: ['resource_temporary_unavailable'] });
    await person.delete(`/projects/${project.id}`);
    assert.deepEqual((await gone(password)).body.error, { generic: ['resource_temporary_unavailable'] });
    const successor = { email: other.credentials.email, role: 'owner' };
    assert.equal((await person.post(`/organisations/${team.id}/members`, successor)).status, 201);
    await person.requestBuild(shared);
    assert.equal((await gone(password)).status, 200);
    assertRefused(await person.get('/whoami'), 401, { generic: ['unauthorized'] });
    const requests = (await other.get(`/projects/${shared.id}/build_requests`)).list;
    assert.doesNotMatch(JSON.stringify(requests.map(String)), new RegExp(person.credentials.email));
    assert.equal(requests.length, 1);
    assert.equal((await other.get(`/projects/${shared.id}/collaborators`)).list.length, 0);
    const entries = (await other.get(`/organisations/${team.id}/audit`)).list;
    assert.ok(entries.some(({ action }) => action === 'member.added'));
  });
});

describeService('what an organisation owns', (service) => {
  test('is used by its projects, and changed by those whose role allows it', async () => {
    const [owner, person] = [await service.user(), await service.user()];
    const team = (await owner.post('/organisations', { name: `kit-${Date.now()}` })).record;
    const path = `/organisations/${team.id}`;
    const member = (await owner.post(`${path}/members`, { email: person.credentials.email, role: 'developer' })).record;
    const ours = { organisation_id: team.id };
    const described = { name: 'tool', command: 'make PREFIX=/opt/tool', prefix: '/opt/tool' };
    const refused = { generic: ['unauthorized'] };
    assertRefused(await person.post('/dependencies', { ...described, ...ours }), 401, refused);
    const dependency = (await owner.post('/dependencies', { ...described, ...ours })).record;
    assert.equal((await person.get(`/dependencies/${dependency.id}`)).status, 200);
    assertRefused(await person.put(`/dependencies/${dependency.id}`, { description: 'x' }), 401, refused);
    assert.equal((await person.get(`/dependencies?organisation_id=${team.id}`)).list.length, 1);
    assert.deepEqual((await person.get('/dependencies')).list, []);
    const registry = { host: 'registry.example.org', username: 'u', password: 'p', ...ours };
    assertRefused(await person.post('/registries', registry), 401, refused);
    const kept = (await owner.post('/registries', registry)).record;
    assertRefused(await person.get(`/registries?organisation_id=${team.id}`), 401, refused);
    assertRefused(await person.delete(`/registries/${kept.id}`), 401, refused);
    const stranger = await service.user();
    assertRefused(await stranger.get(`/dependencies/${dependency.id}`), 404, missing);
    assertRefused(await stranger.delete(`/registries/${kept.id}`), 404, missing);
    assertRefused(await stranger.get(`/dependencies?organisation_id=${team.id}`), 404, {
      organisation_id: ['not_found'],
    });

    // A developer reads what is not limited to refs, and changes nothing of it.
    const variables = `${path}/environment_variables`;
    assert.equal((await owner.post(variables, { name: 'FREE', content: 'for everybody' })).status, 201);
    const limited = {
      form: [
        ['name', 'LIMITED'],
        ['content', 'for-main-alone'],
        ['refs[]', 'main'],
      ] as [string, string][],
    };
    const made = await service.api.post(variables, { as: owner.credentials, ...limited });
    assert.equal(made.status, 201, made.text);
    const seen = await person.get(variables);
    assert.deepEqual(
      seen.list.map(({ name }) => name),
      ['FREE'],
    );
    assert.doesNotMatch(seen.text, /for-main-alone/);
    assertRefused(await person.post(variables, { name: 'X', content: 'y' }), 401, refused);
    const project = (await owner.post('/projects', { name: 'p', repository_url: 'git@example.org:a/b.git', ...ours }))
      .record;
    const suite = await owner.createSuite(project);
    // What runs with a limited variable is changed by a maintainer alone.
    assertRefused(await person.put(`/projects/${project.id}/suites/${suite.id}`, { command: 'env' }), 401, refused);
    await owner.put(`${path}/members/${member.id}`, { role: 'maintainer' });
    assert.equal((await person.put(`/projects/${project.id}/suites/${suite.id}`, { command: 'env' })).status, 200);
    const attached = await person.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, {
      dependency_id: dependency.id,
    });
    assert.equal(attached.status, 201, attached.text);
    assertRefused(await person.get(`${path}/runners`), 401, refused);
    assert.deepEqual((await owner.get(`${path}/runners`)).list, []);
  });
});
