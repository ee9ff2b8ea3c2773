import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { insertLink } from '../../src/server/auth/password-links.ts';
import { findUser } from '../../src/server/auth/users.ts';
import { callbackAddress, registerApplication } from '../support/applications.ts';
import { allEntries, AuditWatch } from '../support/audit.ts';
import { describeService } from '../support/service.ts';
import { Tab } from '../support/tab.ts';
import type { User } from '../support/user.ts';

describeService('the audit log of people', (service) => {
  let alice: User;
  let watch: AuditWatch;
  before(async () => {
    alice = await service.user();
  });
  beforeEach(async () => {
    await service.store.db.transaction((trx) => trx.deleteFrom('sign_in_failures').execute());
    watch = await AuditWatch.begin(service);
  });

  const told = async () =>
    (await watch.news()).map(({ action, actor, via, subject, details }) => ({
      action,
      by: actor?.email ?? null,
      via,
      subject: subject.name,
      details,
    }));

  test('tells of signing in and out, and of credentials that were made anew', async () => {
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const [signedIn] = await watch.news();
    const { id = 0n } = (await findUser(service.store.db.read, alice.email)) ?? {};
    assert.deepEqual(
      { ...signedIn, id: 0, id_str: '', created_at: '' },
      {
        id: 0,
        id_str: '',
        created_at: '',
        action: 'user.signed_in',
        actor: { id, id_str: String(id), email: alice.email },
        via: 'session',
        application: null,
        address: '127.0.0.1',
        subject: { type: 'user', id, id_str: String(id), name: alice.email },
        project_id: null,
        project_id_str: '',
        details: {},
      },
    );
    const key = /hrk_[\w-]{43}/.exec(
      (await tab.submit(await tab.get('/ui/applications'), '/ui/applications', { do: 'key' })).text,
    )?.[0];
    const next = 'seven otters under a bridge';
    const change = { current: alice.credentials.password, password: next, again: next };
    const account = await tab.get('/ui/account');
    await tab.submit(account, '/ui/account/password', { ...change, current: 'wrong' });
    await tab.submit(account, '/ui/account/password', change);
    await tab.submit(await tab.get('/ui/'), '/ui/sign-out');
    const { db, ids } = service.store;
    const { token } = await db.transaction((trx) => insertLink(trx, ids, id));
    const stranger = new Tab(service);
    const page = await stranger.get(`/ui/password?token=${token}`);
    await stranger.submit(page, '/ui/password', { password: 'eight otters', again: 'seven otters' });
    const last = 'eight otters over a bridge';
    await stranger.submit(page, '/ui/password', { password: last, again: last });
    const common = { by: alice.email, via: 'session', subject: alice.email };
    assert.deepEqual(await told(), [
      { ...common, action: 'user.api_key_renewed', details: {} },
      { ...common, action: 'user.password_refused', details: { reason: 'wrong' } },
      { ...common, action: 'user.password_set', details: { how: 'changed', sessions: 'ended' } },
      { ...common, action: 'user.signed_out', details: {} },
      { ...common, by: null, action: 'user.password_set', details: { how: 'link', sessions: 'ended' } },
    ]);
    const text = JSON.stringify((await allEntries(service)).map(({ details, subject_name: name }) => [details, name]));
    for (const secret of [key ?? '?', next, last, token, alice.credentials.password]) assert.ok(!text.includes(secret));
  });

  test('tells once of a burst of guesses, of the account that is guessed at, and never of what was typed', async () => {
    const [victim, other] = [await service.user(), await service.user()];
    const tab = new Tab(service);
    const page = await tab.get('/ui/sign-in');
    const guess = (email: string, password = 'wrong') => tab.submit(page, '/ui/sign-in', { email, password });
    await Promise.all(Array.from({ length: 12 }, () => guess(victim.email)));
    const refused = { action: 'user.sign_in_refused', by: null, via: 'session', details: { reason: 'wrong' } };
    assert.deepEqual(await told(), [{ ...refused, subject: victim.email }]);
    // From the same address: names that nobody has are no news, an account that is guessed at is.
    for (let at = 0; at < 5; at += 1) await guess(`nobody${at}@example.org`);
    await guess('my-password-in-the-wrong-field');
    assert.deepEqual(await told(), []);
    await guess(other.email);
    assert.deepEqual(await told(), [{ ...refused, subject: other.email }]);
    await service.suspend(other);
    await guess(other.email, other.credentials.password);
    assert.deepEqual(await told(), [], 'within the hour it is the same burst');
    // An hour later it is another.
    const { db } = service.store;
    await db.transaction((trx) =>
      trx
        .updateTable('sign_in_failures')
        .set({ noted_at: BigInt(Date.now() - 3_700_000), failures: 1, refused_until: 0n })
        .execute(),
    );
    await guess('my-password-in-the-wrong-field');
    assert.deepEqual(await told(), [{ ...refused, subject: '' }]);
    await guess(other.email, other.credentials.password);
    assert.deepEqual(await told(), [{ ...refused, subject: other.email, details: { reason: 'suspended' } }]);
  });

  test('tells of applications: registered, changed, allowed, given tokens, revoked, deleted', async () => {
    const bob = await service.user();
    const tab = new Tab(service);
    await tab.signIn(bob.credentials);
    const form = await tab.get('/ui/applications/new');
    const fields = { name: 'Lamp', 'redirect_uris[]': callbackAddress };
    const made = await tab.submit(form, '/ui/applications/new', fields);
    const clientId = /id="client-id">(\d+)</.exec(made.text)?.[1] ?? '';
    const secret = /hrs_[\w-]{43}/.exec(made.text)?.[0] ?? '';
    const own = `/ui/applications/${clientId}`;
    await tab.submit(made, own, { ...fields, do: 'save' });
    await tab.submit(made, own, { ...fields, do: 'save', name: 'Bulb' });
    const renewed = await tab.submit(made, own, { do: 'secret' });
    const newSecret = /hrs_[\w-]{43}/.exec(renewed.text)?.[0] ?? '';
    assert.ok(secret !== '' && newSecret !== '' && secret !== newSecret);
    assert.deepEqual(
      (await told()).map(({ action, subject, details }) => [action, subject, details]),
      [
        ['user.signed_in', bob.email, {}],
        ['application.created', 'Lamp', { public: false, redirect_uris: [callbackAddress] }],
        ['application.updated', 'Lamp', { changed: ['name'] }],
        ['application.secret_renewed', 'Bulb', {}],
      ],
    );

    const asked = new URLSearchParams({ client_id: clientId, redirect_uri: callbackAddress, scope: 'user,projects' });
    const decide = async (query: string, decision: string) =>
      tab.submit(await tab.get(`/oauth2/authorize?${query}`), '/oauth2/authorize', { decision });
    await decide(asked.toString(), 'deny');
    const allowed = await decide(asked.toString(), 'allow');
    const code = new URL(allowed.headers.location ?? '').searchParams.get('code') ?? '';
    const exchange = () =>
      service.api.post('/oauth2/access_token', {
        form: {
          grant_type: 'authorization_code',
          code,
          client_id: clientId,
          client_secret: newSecret,
          redirect_uri: callbackAddress,
        },
      });
    assert.equal((await exchange()).status, 200);
    assert.equal((await exchange()).status, 400);
    assert.equal((await exchange()).status, 400);
    const implicit = await decide(`${asked.toString()}&response_type=token`, 'allow');
    const token = /access_token=(hrt_[\w-]+)/.exec(implicit.headers.location ?? '')?.[1] ?? '';
    const applications = await tab.get('/ui/applications');
    const revoke = { do: 'revoke', authorization_id: clientId };
    await tab.submit(applications, '/ui/applications', revoke);
    await tab.submit(applications, '/ui/applications', revoke);
    await tab.submit(await tab.get(own), own, { do: 'delete' });
    const entries = await watch.news();
    const scopes = ['user', 'projects'];
    assert.deepEqual(
      entries.map(({ action, actor, via, application, details }) => [action, actor?.email, via, application, details]),
      [
        ['application.allowed', bob.email, 'session', null, { scopes }],
        ['token.issued', bob.email, 'token', 'Bulb', { scopes }],
        ['token.revoked', bob.email, 'token', 'Bulb', { reason: 'code_used_twice' }],
        ['application.allowed', bob.email, 'session', null, { scopes }],
        ['token.issued', bob.email, 'session', null, { scopes }],
        ['application.revoked', bob.email, 'session', null, { tokens_revoked: 1 }],
        ['application.deleted', bob.email, 'session', null, {}],
      ],
    );
    for (const { subject } of entries) assert.equal(subject.name, 'Bulb');
    const text = JSON.stringify((await allEntries(service)).map(({ details }) => details));
    for (const one of [secret, newSecret, code, token]) assert.ok(one.length > 20 && !text.includes(one));
  });

  test('names the application that acted, and the person it acted for', async () => {
    const application = await registerApplication(service, alice, { name: 'Chimney' });
    const token = await application.token(alice, ['projects']);
    const form = { name: 'by an application', repository_url: 'git@example.org:a.git' };
    await service.api.post('/projects', { form, headers: { authorization: `Bearer ${token}` } });
    const [entry] = await watch.news();
    assert.deepEqual([entry?.via, entry?.application, entry?.actor?.email], ['token', 'Chimney', alice.email]);
  });
});
