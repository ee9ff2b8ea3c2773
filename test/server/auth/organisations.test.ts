import assert from 'node:assert/strict';
import { test } from 'node:test';
import { updateUser } from '../../../src/server/auth/users.ts';
import { assertRefused } from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const missing = { generic: ['not_found'] };
const unauthorized = { generic: ['unauthorized'] };

describeService('an organisation', (service) => {
  let number = 0;
  async function found(owner: User, name = `team-${(number += 1)}`): Promise<Record_> {
    const answer = await owner.post('/organisations', { name, description: 'We build' });
    assert.equal(answer.status, 201, answer.text);
    return answer.record;
  }
  async function join(owner: User, organisation: Record_, person: User, role: string): Promise<Record_> {
    const answer = await owner.post(`/organisations/${organisation.id}/members`, {
      email: person.credentials.email,
      role,
    });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.record.state, 'member');
    assert.equal(answer.record.invitation_url, '');
    return answer.record;
  }

  test('has members with roles, which decide at once who may what', async () => {
    const [owner, person, stranger] = [await service.user(), await service.user(), await service.user()];
    const organisation = await found(owner);
    const path = `/organisations/${organisation.id}`;
    assert.equal(organisation.role, 'owner');
    assert.equal(organisation.id_str, String(organisation.id));
    assertRefused(await stranger.post('/organisations', { name: String(organisation.name) }), 403, {
      name: ['already_exists'],
    });
    for (const name of ['', 'Team', 'a b', 'a@example.org', 'x'.repeat(65)])
      assert.equal((await stranger.post('/organisations', { name })).status, 403);
    const project = (
      await owner.post('/projects', {
        name: 'ours',
        repository_url: 'git@example.org:team/ours.git',
        organisation_id: organisation.id,
      })
    ).record;
    assert.equal(project.organisation_id, organisation.id);
    assert.equal(project.owned, true);

    for (const call of [stranger.get(path), stranger.get(`${path}/members`), stranger.get(`/projects/${project.id}`)])
      assertRefused(await call, 404, missing);
    const refused = await stranger.post('/projects', {
      name: 'x',
      repository_url: 'git@example.org:a/b.git',
      organisation_id: organisation.id,
    });
    assertRefused(refused, 404, { organisation_id: ['not_found'] });

    const member = await join(owner, organisation, person, 'viewer');
    assertRefused(await owner.post(`${path}/members`, { email: person.credentials.email, role: 'owner' }), 403, {
      email: ['already_exists'],
    });
    const variable = (
      await owner.post(`/projects/${project.id}/environment_variables`, { name: 'KEY', content: 'hidden-from-viewers' })
    ).record;
    const may = async (): Promise<Record<string, number>> => ({
      read: (await person.get(`/projects/${project.id}`)).status,
      build: (await person.post(`/projects/${project.id}/build_requests`, { commit_ref: 'main' })).status,
      change: (await person.put(`/projects/${project.id}`, { description: 'x' })).status,
      create: (
        await person.post('/projects', {
          name: `of-${Math.random()}`,
          repository_url: 'git@example.org:a/b.git',
          organisation_id: organisation.id,
        })
      ).status,
      invite: (await person.put(path, { description: 'x' })).status,
    });
    const rows: [string, Record<string, number>][] = [
      ['viewer', { read: 200, build: 401, change: 401, create: 401, invite: 401 }],
      ['developer', { read: 200, build: 201, change: 401, create: 401, invite: 401 }],
      ['maintainer', { read: 200, build: 201, change: 200, create: 201, invite: 401 }],
      ['owner', { read: 200, build: 201, change: 200, create: 201, invite: 200 }],
      ['viewer', { read: 200, build: 401, change: 401, create: 401, invite: 401 }],
    ];
    for (const [role, expected] of rows) {
      assert.equal((await owner.put(`${path}/members/${member.id}`, { role })).record.role, role);
      assert.deepEqual(await may(), expected, role);
      const listed = (await person.get(`/projects?organisation_id=${organisation.id}`)).list;
      assert.equal(listed.find(({ id }) => id === project.id)?.owned, role === 'maintainer' || role === 'owner');
      assert.equal((await person.get('/organisations')).list[0]?.role, role);
    }
    const shown = await person.get(`/projects/${project.id}/environment_variables/${variable.id}`);
    assert.equal(shown.record.content, '');
    assert.doesNotMatch(
      (await person.get(`/projects/${project.id}/environment_variables`)).text,
      /hidden-from-viewers/,
    );

    // A member who leaves is a stranger again.
    assertRefused(
      await person.delete(`${path}/members/${(await owner.get(`${path}/members`)).list[0]?.id}`),
      401,
      unauthorized,
    );
    assert.equal((await person.delete(`${path}/members/${member.id}`)).status, 200);
    assertRefused(await person.get(`/projects/${project.id}`), 404, missing);
    assertRefused(await person.get(path), 404, missing);
    assert.deepEqual((await person.get('/projects')).list, []);
  });

  test('keeps an owner, also when two lower each other at once', async () => {
    const [one, other] = [await service.user(), await service.user()];
    const organisation = await found(one);
    const path = `/organisations/${organisation.id}/members`;
    const [first] = (await one.get(path)).list;
    for (const answer of [
      await one.put(`${path}/${first?.id}`, { role: 'viewer' }),
      await one.delete(`${path}/${first?.id}`),
    ])
      assert.deepEqual([answer.status, answer.body.error], [403, { role: ['invalid_format'] }]);
    const second = await join(one, organisation, other, 'owner');
    const answers = await Promise.all([
      one.put(`${path}/${second.id}`, { role: 'viewer' }),
      other.put(`${path}/${first?.id}`, { role: 'viewer' }),
    ]);
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    const owners = [...(await one.get(path)).list, ...(await other.get(path)).list].filter(
      ({ role }) => role === 'owner',
    );
    assert.ok(owners.length > 0);
  });

  test('can neither sign in nor be taken for a person', async () => {
    const owner = await service.user();
    const organisation = await found(owner);
    for (const email of [String(organisation.name), String(organisation.id)]) {
      const answer = await service.signIn({ email, password: '', api_key: '' }).get('/whoami');
      assertRefused(answer, 401, unauthorized);
    }
    const project = await owner.createProject();
    assert.equal(
      (await owner.post(`/projects/${project.id}/collaborators`, { email: String(organisation.name) })).status,
      403,
    );
    const operator = await service.user();
    await service.store.db.transaction((trx) => updateUser(trx, operator.credentials.email, { operator: 1 }));
    assert.equal((await operator.get(`/users?email=${String(organisation.name)}`)).list.length, 0);
    assertRefused(await operator.post(`/users/${organisation.id}/suspend`), 404, missing);
    assertRefused(await operator.post(`/users/${organisation.id}/password_link`), 404, missing);
    assert.equal((await owner.delete(`/organisations/${organisation.id}`)).status, 200);
    assert.equal((await found(owner, String(organisation.name))).status ?? 'made', 'made');
  });

  test('with projects is not deleted', async () => {
    const owner = await service.user();
    const organisation = await found(owner);
    const project = (
      await owner.post('/projects', {
        name: 'p',
        repository_url: 'git@example.org:a/b.git',
        organisation_id: organisation.id,
      })
    ).record;
    const refused = await owner.delete(`/organisations/${organisation.id}`);
    assert.deepEqual([refused.status, refused.body.error], [403, { generic: ['resource_temporary_unavailable'] }]);
    assert.equal((await owner.delete(`/projects/${project.id}`)).status, 200);
    assert.equal((await owner.delete(`/organisations/${organisation.id}`)).status, 200);
    assertRefused(await owner.get(`/organisations/${organisation.id}`), 404, missing);
  });

  test('invites people without an account, of whom each takes their own invitation once', async () => {
    const [owner, mallory] = [await service.user(), await service.user()];
    const organisation = await found(owner);
    const members = `/organisations/${organisation.id}/members`;
    const email = `new-${organisation.id}@example.org`;
    const invited = await owner.post(members, { email, role: 'developer' });
    assert.equal(invited.record.state, 'invited');
    const url = new URL(String(invited.record.invitation_url));
    assert.match(url.pathname + url.search, /^\/ui\/invitation\?token=hri_/);
    assert.doesNotMatch((await owner.get(members)).text, /hri_/);
    const tab = new Tab(service);
    const page = await tab.get(url.pathname + url.search);
    assert.match(page.text, new RegExp(String(organisation.name)));
    const password = 'correct horse battery';
    assert.equal((await tab.submit(page, '/ui/invitation', { password, again: password })).status, 303);
    assert.equal((await tab.get('/ui/')).status, 200);
    assert.equal((await owner.get(members)).list.find((one) => one.email === email)?.state, 'member');
    assert.equal((await new Tab(service).get(url.pathname + url.search)).status, 404);
    const person = new Tab(service);
    await person.signIn({ email, password });
    assert.equal((await person.get('/ui/')).status, 200);

    // Somebody who works on the projects of others cannot be impersonated by inviting them.
    const victim = { email: `victim-${organisation.id}@example.org` };
    const secret = await owner.createProject();
    await owner.invite(secret, victim);
    const trap = await found(mallory);
    const taken = await mallory.post(`/organisations/${trap.id}/members`, { ...victim, role: 'viewer' });
    const attack = new Tab(service);
    const { pathname, search } = new URL(String(taken.record.invitation_url));
    assert.doesNotMatch((await attack.get(pathname + search)).text, /name="password"/);
    const forced = await attack.post('/ui/invitation', {
      token: new URLSearchParams(search).get('token') ?? '',
      password,
      again: password,
    });
    assert.notEqual(forced.status, 303);
    await attack.signIn({ email: victim.email, password });
    assert.equal((await attack.get('/ui/')).status, 303);
  });
});
