import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { registerApplication } from '../../support/applications.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { Developer } from '../../support/developer.ts';
import { issuerSettings, RealIssuer, signInAs } from '../../support/issuer.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

onOneDatabase((database) => {
  let issuer: RealIssuer;
  let service: Service;
  before(async () => {
    issuer = await RealIssuer.start(database);
    service = new Service(database, { settings: issuerSettings(issuer.url) });
    await service.start();
  });

  test('an account of an invitation loses what it had when its user comes from the issuer [promise: invitations]', async () => {
    const mallory = await service.user();
    const team = (await mallory.post('/organisations', { name: 'trap' })).record;
    const email = 'victim@example.org';
    const { record } = await mallory.post(`/organisations/${team.id}/members`, { email, role: 'viewer' });
    const { pathname, search } = new URL(String(record.invitation_url));
    // The inviter has seen the address, and takes the account first.
    const thief = new Tab(service);
    const password = 'nine herons on a weir';
    const at = pathname + search;
    const form = await thief.get(at);
    assert.equal((await thief.submit(form, '/ui/invitation', { password, again: password })).status, 303);
    const made = await thief.submit(await thief.get('/ui/applications'), '/ui/applications', { do: 'key' });
    const [, key = ''] = /id="api-key">([^<]+)</.exec(made.text) ?? [];
    const account = service.signIn({ email, password, api_key: key });
    const application = await registerApplication(service, mallory);
    const token = await application.token(account, ['user', 'projects']);
    const code = await application.code(account);
    const { db, ids } = service.store;
    const row = await db.read.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirstOrThrow();
    assert.equal((await account.get('/whoami')).status, 200);

    issuer.people.set('victim', { email, email_verified: true });
    const victim = new Tab(service);
    const asked = await signInAs(issuer, 'victim', victim);
    assert.match(asked.text, /Enter its password once/, 'the address alone links nothing');
    const { token: link } = await db.transaction((trx) => insertLink(trx, ids, row.id));
    assert.equal((await signInAs(issuer, 'victim', victim, `/ui/password?token=${link}`)).status, 303);
    assert.match((await victim.get('/ui/account')).text, /victim@example\.org/);

    assert.equal((await thief.get('/ui/')).status, 303, 'the session');
    assert.equal((await account.get('/whoami')).status, 401, 'the API key');
    const bearer = { authorization: `Bearer ${token}` };
    assert.equal((await service.api.get('/whoami', { headers: bearer })).status, 401, 'the token');
    assert.equal((await application.exchange({ code })).status, 400, 'a code that waits for its exchange');
    assert.notEqual((await new Tab(service).signIn({ email, password })).status, 303, 'the password');
    const later = await application.code(account);
    assert.equal((await application.exchange({ code: later })).status, 200, 'what the user allows from now on counts');
  });

  test('an invitation makes no password where passwords do not sign in', async () => {
    const strict = new Service(database, { settings: issuerSettings(issuer.url, { passwords: 'off' }) });
    await strict.start();
    const owner = await strict.user();
    const team = (await owner.post('/organisations', { name: 'strict' })).record;
    const email = 'guest@example.org';
    const { record } = await owner.post(`/organisations/${team.id}/members`, { email, role: 'viewer' });
    const { pathname, search } = new URL(String(record.invitation_url));
    const tab = new Tab(strict);
    const page = await tab.get(pathname + search);
    assert.doesNotMatch(page.text, /name="password"/);
    const [, key = ''] = /name="form_key" value="([^"]+)"/.exec((await tab.get('/ui/sign-in')).text) ?? [];
    const token = new URLSearchParams(search).get('token') ?? '';
    const password = 'ten herons on a weir';
    const forced = await tab.post('/ui/invitation', { form_key: key, token, password, again: password });
    assert.match(forced.headers.location ?? '', /^\/ui\/sign-in\?/);
    assert.equal((await tab.get('/ui/')).status, 303);

    // With an operator's link they come from the issuer, and join.
    const { db, ids } = strict.store;
    const row = await db.read.selectFrom('users').select('id').where('email', '=', email).executeTakeFirstOrThrow();
    const { token: link } = await db.transaction((trx) => insertLink(trx, ids, row.id));
    issuer.people.set('guest', { email, email_verified: true });
    assert.equal((await signInAs(issuer, 'guest', tab, `/ui/password?token=${link}`)).status, 303);
    const form = await tab.get(pathname + search);
    assert.equal((await tab.submit(form, '/ui/invitation', {})).status, 303);
    assert.match((await tab.get('/ui/organisations/strict')).text, /Your role: viewer/);
  });

  test('headrace login goes through the issuer in the browser', async () => {
    issuer.people.set('dev', { email: 'dev@example.org', email_verified: true });
    const developer = new Developer({});
    const authority = join(service.folder, 'tls', 'cert.pem');
    const { child, ended } = developer.start(['login', service.address, '--no-browser', '--ca-file', authority]);
    const shown = Promise.withResolvers<string>();
    let out = '';
    child.stdout?.on('data', (piece: Buffer) => {
      out += piece.toString();
      const [address] = /https:\S+S256/.exec(out) ?? [];
      if (address !== undefined) shown.resolve(address);
    });
    const address = new URL(await shown.promise);
    const tab = new Tab(service);
    const first = await tab.get(address.pathname + address.search);
    assert.equal(first.status, 303, 'nobody is signed in');
    const back = await signInAs(issuer, 'dev', tab, first.headers.location ?? '');
    assert.equal(back.status, 303);
    const asked = await tab.get(back.headers.location ?? '');
    assert.match(asked.text, /headrace-cli/);
    const allowed = await tab.submit(asked, '/oauth2/authorize', { decision: 'allow' });
    const [, code = ''] = /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(allowed.text) ?? [];
    child.stdin?.end(`${code}\n`);
    const login = await ended;
    assert.equal(login.status, 0, login.err);
    assert.match(login.out, /as dev@example\.org\.\n$/);
    const stored = readFileSync(join(developer.home, 'config', 'headrace', 'servers.json'), 'utf8');
    const [, token = ''] = /"token": "(hrt_[\w-]+)"/.exec(stored) ?? [];
    const who = () => service.api.get('/whoami', { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await who()).record.email, 'dev@example.org');
    // Who is out at the issuer is out on the command line too.
    await service.store.db.transaction((trx) =>
      trx.updateTable('users').set({ shut_out: 'group' }).where('email', '=', 'dev@example.org').execute(),
    );
    const out_ = await developer.run(['whoami']);
    assert.deepEqual([(await who()).status, out_.status], [401, 3]);
  });
});
