import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { createLinkRate } from '../../../src/server/mail/mailer.ts';
import { randomSecret } from '../../../src/shared/lib/passwords.ts';
import type { Record_ } from '../../support/client.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const password = 'seven herons on a weir';

test('a mail server sends one address a few links a day, and others go on', () => {
  let now = 0;
  const may = createLinkRate(2, () => now);
  assert.deepEqual([may('a@example.org'), may('a@example.org'), may('a@example.org')], [true, true, false]);
  assert.equal(may('b@example.org'), true);
  now += 24 * 60 * 60 * 1000;
  assert.equal(may('a@example.org'), true);
});

describeService('an invitation', (service) => {
  let number = 0;
  const teamOf = async (owner: User): Promise<Record_> =>
    (await owner.post('/organisations', { name: `inviting-${(number += 1)}` })).record;
  const invite = async (by: User, team: Record_, email = `guest-${(number += 1)}@example.org`, role = 'owner') => {
    const { record, status, text } = await by.post(`/organisations/${team.id}/members`, { email, role });
    assert.equal(status, 201, text);
    const { pathname, search } = new URL(String(record.invitation_url));
    return { email, path: pathname + search, token: new URLSearchParams(search).get('token') ?? '', id: record.id };
  };
  /** Takes it with a password, as a form that was opened before would. */
  const take = async (tab: Tab, token: string, form: { text: string }) => {
    const [, key = ''] = /name="form_key" value="([^"]+)"/.exec(form.text) ?? [];
    return tab.post('/ui/invitation', { form_key: key, token, password, again: password });
  };
  const isOver = async ({ path, token }: { path: string; token: string }, why: string) => {
    assert.equal((await new Tab(service).get(path)).status, 404, why);
    const tab = new Tab(service);
    const answer = await take(tab, token, await tab.get('/ui/sign-in'));
    assert.deepEqual([answer.status, (await tab.get('/ui/')).status], [404, 303], why);
  };
  const membersOf = async (owner: User, team: Record_) =>
    (await owner.get(`/organisations/${team.id}/members`)).list.map(({ email, state }) => [email, state]);
  const accountOf = (email: string) =>
    service.store.db.read.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirst();

  test('is taken once, for its own account, whoever else is signed in [promise: invitations]', async () => {
    const [owner, mallory] = [await service.user(), await service.user()];
    const team = await teamOf(owner);
    const open = await invite(owner, team);
    // Somebody else's session never joins with it: the account of the invitation is made.
    const theirs = new Tab(service);
    await theirs.signIn(mallory.credentials);
    const tabs = [theirs, new Tab(service), new Tab(service)];
    const forms = await Promise.all(tabs.map((tab) => tab.get(open.path)));
    const answers = await Promise.all(tabs.map((tab, at) => take(tab, open.token, forms[at] ?? assert.fail())));
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [303, 404, 404],
    );
    await isOver(open, 'it was used');
    assert.deepEqual(await membersOf(owner, team), [
      [owner.email, 'member'],
      [open.email, 'member'],
    ]);
    assert.equal((await mallory.get(`/organisations/${team.id}`)).status, 404);
  });

  test('is over when it is old, withdrawn, forged, or its organisation is deleted', async () => {
    const owner = await service.user();
    const team = await teamOf(owner);
    const { db, ids } = service.store;
    const old = await invite(owner, team);
    const past = { expires_at: BigInt(Date.now() - 1) };
    await db.transaction((trx) => trx.updateTable('organisation_members').set(past).where('id', '=', old.id).execute());
    await isOver(old, 'it is old');
    const anew = await invite(owner, team, old.email, 'viewer');
    await isOver(old, 'it was replaced');
    assert.equal((await owner.delete(`/organisations/${team.id}/members/${anew.id}`)).status, 200);
    await isOver(anew, 'it was withdrawn');
    assert.equal(await accountOf(old.email), undefined, 'nothing is left of who never came');

    // A password link is a token of another kind, and no more than that.
    const { id = 0n } = (await accountOf(owner.email)) ?? {};
    const { token: link } = await db.transaction((trx) => insertLink(trx, ids, id));
    const real = await invite(owner, team);
    for (const token of [randomSecret('hri'), link, real.token.slice(0, -1), `${real.token}x`, '', 'null'])
      await isOver({ path: `/ui/invitation?token=${encodeURIComponent(token)}`, token }, token);
    assert.equal((await new Tab(service).get(`/ui/password?token=${real.token}`)).status, 404);

    assert.equal((await owner.delete(`/organisations/${team.id}`)).status, 200);
    await isOver(real, 'the organisation is gone');
    assert.equal(await accountOf(real.email), undefined);
    const again = await owner.post('/organisations', { name: String(team.name) });
    assert.equal(again.status, 201);
    await isOver(real, 'another has its name');
  });

  test('ends with the rights of its inviter: nobody leaves a door open for themselves [promise: invitations]', async () => {
    const owner = await service.user();
    const team = await teamOf(owner);
    const members = `/organisations/${team.id}/members`;
    const ways: Record<string, (leaver: User, id: bigint) => Promise<unknown>> = {
      removed: (_, id) => owner.delete(`${members}/${id}`),
      lowered: (_, id) => owner.put(`${members}/${id}`, { role: 'maintainer' }),
      suspended: (leaver) => service.suspend(leaver),
      deleted: (leaver) =>
        service.api.ask('DELETE', '/account', {
          as: leaver.credentials,
          form: { password: leaver.credentials.password },
        }),
    };
    for (const [way, lose] of Object.entries(ways)) {
      const leaver = await service.user();
      const { record } = await owner.post(members, { email: leaver.email, role: 'owner' });
      const door = await invite(leaver, team);
      const other = await invite(owner, team);
      await lose(leaver, record.id);
      await isOver(door, way);
      const tab = new Tab(service);
      assert.equal((await take(tab, other.token, await tab.get(other.path))).status, 303, 'those of others stay');
      if (way === 'suspended') continue;
      assert.ok(!(await membersOf(owner, team)).some(([email]) => email === door.email), way);
      assert.equal(await accountOf(door.email), undefined, way);
    }
  });

  test('shows a stranger nothing but its address, and gives no rights before it is taken', async () => {
    const owner = await service.user();
    const team = await teamOf(owner);
    const guest = await service.user('collaborator');
    await service.store.db.transaction((trx) =>
      trx
        .updateTable('users')
        .set({ password_hash: null, api_key_hash: null })
        .where('email', '=', guest.email)
        .execute(),
    );
    const project = await owner.createProject({ organisation_id: String(team.id) });
    const open = await invite(owner, team, guest.email, 'maintainer');
    const page = await new Tab(service).get(open.path);
    assert.doesNotMatch(page.text, new RegExp(owner.email));
    assert.equal((await guest.get(`/projects/${project.id}`)).status, 401);
    const changed = await owner.put(`/organisations/${team.id}/members/${open.id}`, { role: 'viewer' });
    assert.equal(changed.record.state, 'invited');
    const tab = new Tab(service);
    assert.equal((await take(tab, open.token, await tab.get(open.path))).status, 303);
    assert.match((await tab.get(`/ui/organisations/${String(team.name)}`)).text, /Your role: viewer/);
    assert.equal((await accountOf(guest.email))?.kind, 'user');
  });
});
