import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { updateUser } from '../../../src/server/auth/users.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { buttonOf, client, issuerSettings, RealIssuer, signInAs, signInThere } from '../../support/issuer.ts';
import type { Answer } from '../../support/client.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

describe('signing in at an issuer', () => {
  onEveryDatabase((database) => {
    let issuer: RealIssuer;
    let service: Service;
    const started = async (more: Record<string, string> = {}): Promise<Service> => {
      const made = new Service(database, { settings: issuerSettings(issuer.url, more) });
      await made.start();
      return made;
    };
    before(async () => {
      issuer = await RealIssuer.start(database);
      service = await started({ oidc_allowed_domains: 'example.org, acme.test', oidc_operator_group: 'admins' });
    });

    const arrive = async (as: string, { tab = new Tab(service), at = '/ui/sign-in' } = {}) => ({
      tab,
      answer: await signInAs(issuer, as, tab, at),
    });
    const said = ({ answer }: { answer: Answer }) => ({ status: answer.status, text: answer.text });
    const rowOf = (email: string) =>
      service.store.db.read.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirst();

    test('makes an account, finds it again by its subject, and follows the operator group', async () => {
      issuer.people.set('ada', { email: 'Ada@example.org', email_verified: true, groups: ['admins'] });
      const first = await arrive('ada', { at: '/ui/sign-in?return=/ui/applications' });
      assert.deepEqual(
        [first.answer.status, first.answer.headers.location],
        [303, '/ui/applications'],
        first.answer.text,
      );
      assert.ok((await first.tab.get('/ui/operations')).status === 200, 'who is in the group is an operator');
      const page = await first.tab.get('/ui/account');
      assert.match(page.text, /ada@example\.org/);
      assert.match(page.text, /You sign in with Acme/);
      assert.doesNotMatch(page.text, /Current password/);

      issuer.people.set('ada', { email: 'lovelace@acme.test', email_verified: true, groups: [] });
      const second = await arrive('ada');
      assert.match((await second.tab.get('/ui/account')).text, /ada@example\.org/, 'the subject decides');
      assert.equal((await second.tab.get('/ui/operations')).status, 404, 'who has left the group is none');
      assert.equal((await rowOf('ada@example.org'))?.password_hash, null);
    });

    test('refuses in words who is not admitted, and keeps nothing of them', async () => {
      issuer.people.set('eve', { email: 'eve@example.org', email_verified: false });
      assert.match(said(await arrive('eve')).text, /Acme has not verified your e-mail address/);
      issuer.people.set('eve', { email: 'eve@elsewhere.test', email_verified: true });
      const refused = said(await arrive('eve'));
      assert.deepEqual([refused.status, /domain of your e-mail address/.test(refused.text)], [403, true]);
      assert.equal(await rowOf('eve@example.org'), undefined);
      assert.equal(await rowOf('eve@elsewhere.test'), undefined);

      // The address of another's account: a new person at the issuer got it, and is not let in with it.
      issuer.people.set('ada2', { email: 'ada@example.org', email_verified: true });
      assert.match(said(await arrive('ada2')).text, /belongs to another user of Acme/);
    });

    test('links an account once, after its password', async () => {
      const alice = await service.user();
      issuer.people.set('alice', { email: alice.email, email_verified: true });
      const { tab, answer } = await arrive('alice', { at: '/ui/sign-in?return=/ui/applications' });
      assert.equal(answer.status, 200);
      assert.match(answer.text, /Enter its password once/);
      assert.equal((await tab.get('/ui/')).status, 303, 'nobody is signed in yet');
      const wrong = await tab.submit(answer, '/ui/oidc/link', { password: 'wrong' });
      assert.deepEqual([wrong.status, /The password is wrong/.test(wrong.text)], [401, true]);
      const done = await tab.submit(wrong, '/ui/oidc/link', { password: alice.credentials.password });
      assert.deepEqual([done.status, done.headers.location], [303, '/ui/applications'], done.text);
      const again = await arrive('alice');
      assert.equal(again.answer.status, 303);
      assert.match((await again.tab.get('/ui/account')).text, new RegExp(alice.email));
      await service.suspend(alice);
      assert.match(said(await arrive('alice')).text, /This account is suspended/);
    });

    test('links the account of an operator’s link, which then is used up', async () => {
      const bob = await service.user();
      const { db, ids } = service.store;
      const row = await rowOf(bob.email);
      const { token } = await db.transaction((trx) => insertLink(trx, ids, row?.id ?? 0n));
      issuer.people.set('bob', { email: 'robert@acme.test', email_verified: true });
      const at = `/ui/password?token=${token}`;
      const { tab, answer } = await arrive('bob', { at });
      assert.equal(answer.status, 303, answer.text);
      assert.match((await tab.get('/ui/account')).text, new RegExp(bob.email));
      assert.equal((await new Tab(service).get(at)).status, 404);

      // An operator by the web makes no link for an account that has been in use.
      const [ada, operator] = [await rowOf('ada@example.org'), await service.user()];
      await db.transaction((trx) => updateUser(trx, operator.email, { operator: 1 }));
      const path = `/users/${ada?.id}/password_link`;
      assert.match((await operator.post(path)).text, /already_exists/);
    });

    test('one flow per browser, none twice, and none begun by another site', async () => {
      issuer.people.set('carol', { email: 'carol@example.org', email_verified: true });
      issuer.signingIn = 'carol';
      const tab = new Tab(service);
      const button = buttonOf(await tab.get('/ui/sign-in'));
      const back = await signInThere((await tab.get(button)).headers.location ?? '');
      const stolen = new Tab(service);
      await stolen.get('/ui/sign-in');
      const other = await stolen.get(back);
      assert.deepEqual([other.status, /This sign-in is over/.test(other.text)], [400, true], 'of another browser');
      const kept = new Map(tab.cookies);
      assert.equal((await tab.get(back)).status, 303);
      const replay = new Tab(service);
      for (const [name, value] of kept) replay.cookies.set(name, value);
      assert.equal((await replay.get(back)).status, 400);
      const unasked = await new Tab(service).get('/ui/oidc/start?return=/ui/');
      assert.deepEqual([unasked.status, unasked.headers.location], [303, '/ui/sign-in?return=%2Fui%2F']);
      const twice = new Tab(service);
      const one = await signInThere((await twice.get(buttonOf(await twice.get('/ui/sign-in')))).headers.location ?? '');
      await twice.get(buttonOf(await twice.get('/ui/sign-in')));
      assert.equal((await twice.get(one)).status, 400, 'the second took the place of the first');
    });

    test('admits only those of a group, with accounts, and takes passwords of links alone, if the settings say so', async () => {
      const secretFile = join(temporaryFolder(), 'secret');
      writeFileSync(secretFile, `${client.secret}\n`);
      const { oidc_client_secret: _, ...settings } = issuerSettings(issuer.url, {
        oidc_client_secret_file: secretFile,
        oidc_allowed_groups: 'builders, site admins',
        oidc_sign_up: 'off',
        oidc_trust_email: 'on',
        passwords: 'off',
      });
      const strict = new Service(database, { settings });
      await strict.start();
      const greta = await strict.user();
      const claims = { email: greta.email, email_verified: true };
      issuer.people.set('greta', { ...claims, groups: ['visitors'] });
      assert.match((await signInAs(issuer, 'greta', new Tab(strict))).text, /Your groups at Acme do not admit you/);
      issuer.people.set('greta', { ...claims, groups: ['site admins'] });
      issuer.people.set('henry', { email: 'henry@example.org', email_verified: true, groups: ['builders'] });
      assert.match((await signInAs(issuer, 'henry', new Tab(strict))).text, /There is no account with your e-mail/);

      const refused = await new Tab(strict).signIn(greta.credentials);
      assert.deepEqual([refused.status, /was not set with an operator/.test(refused.text)], [401, true]);
      assert.equal((await strict.api.get('/whoami', { as: greta.credentials })).status, 200, 'API keys go on');
      const byPassword = { ...greta.credentials, api_key: greta.credentials.password };
      assert.equal((await strict.api.get('/whoami', { as: byPassword })).status, 401, 'Basic takes no password');

      const trusted = new Tab(strict);
      assert.equal((await signInAs(issuer, 'greta', trusted)).status, 303, 'linked by the address alone');
      const account = await trusted.get('/ui/account');
      assert.doesNotMatch(account.text, /Change your password/);
      const change = { current: greta.credentials.password, password: 'not from any link', again: 'not from any link' };
      const key = /name="form_key" value="([^"]+)"/.exec(account.text)?.[1] ?? '';
      assert.equal((await trusted.post('/ui/account/password', { form_key: key, ...change })).status, 404);

      const { db, ids } = strict.store;
      const row = await db.read.selectFrom('users').select('id').where('email', '=', greta.email).executeTakeFirst();
      const { token } = await db.transaction((trx) => insertLink(trx, ids, row?.id ?? 0n));
      const tab = new Tab(strict);
      const password = 'a password from a link';
      await tab.submit(await tab.get(`/ui/password?token=${token}`), '/ui/password', { password, again: password });
      assert.equal((await tab.signIn({ email: greta.email, password })).status, 303);
    });

    test('the button says that the issuer is away, also at the start, and comes back with it', async () => {
      await issuer.close();
      const late = await started();
      const tab = new Tab(late);
      const away = await tab.get('/ui/sign-in');
      assert.match(away.text, /Acme does not answer at the moment/);
      assert.match(away.text, /<button class="main" disabled>\s*Sign in with Acme/);
      const alice = await late.user();
      assert.equal((await new Tab(late).signIn(alice.credentials)).status, 303, 'passwords go on');
      await issuer.open();
      assert.ok(buttonOf(await tab.get('/ui/sign-in')).startsWith('/ui/oidc/start'));
    });
  });
});
