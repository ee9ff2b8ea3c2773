import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { findUser } from '../../../src/server/auth/users.ts';
import { violationsOn } from '../../support/accessibility.ts';
import { fillInSignIn, TestBrowser } from '../../support/browser.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

/** With the authenticator of a real browser, which needs a name for the server. */
describeService('passkeys', (service, database) => {
  const browser = new TestBrowser(database);
  let address = '';
  before(() => {
    address = service.address.replace('127.0.0.1', 'localhost');
  });

  const withAuthenticator = async (page: Page): Promise<string> => {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('WebAuthn.enable');
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    return authenticatorId;
  };
  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const signedIn = async (user: User): Promise<Page> => {
    // axe is a script that the pages' policy does not allow.
    const page = await browser.signIn(address, user.credentials, { bypassCSP: true });
    await withAuthenticator(page);
    return page;
  };
  const age = (user: User) =>
    service.store.db.transaction(async (trx) => {
      const { id = 0n } = (await findUser(trx, user.email)) ?? {};
      const old = { proven_at: BigInt(Date.now() - 16 * 60_000) };
      await trx.updateTable('sessions').set(old).where('user_id', '=', id).execute();
    });
  const add = async (page: Page, name: string) => {
    await page.goto(`${address}/ui/account`);
    await press(page, 'Add a passkey');
    await page.getByLabel('Name').fill(name);
    await press(page, 'Create the passkey');
    await page.getByRole('heading', { name, exact: true }).waitFor();
  };
  /** The page as it is, which others cannot open by its address. */
  const isAccessible = async (page: Page) => {
    assert.deepEqual(await violationsOn(page), []);
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth')) <= 0, `at ${width}`);
    }
  };
  const isOut = async (page: Page) => {
    const answer = await page.goto(`${address}/ui/account`);
    return answer?.url().includes('/ui/sign-in') ?? false;
  };

  test('are added, renamed and used alone, and asked for after the password [promise: second-factor]', async () => {
    const alice = await service.user();
    const page = await signedIn(alice);
    await add(page, 'Laptop');
    assert.match(await page.content(), /Laptop/);
    await isAccessible(page);
    await page.getByText('Rename').click();
    await page.getByLabel('Name').fill('<b>Desk</b>');
    await press(page, 'Save the name');
    await page.getByRole('heading', { name: '<b>Desk</b>' }).waitFor();

    // Alone.
    await press(page, 'Sign out');
    await press(page, 'Sign in with a passkey');
    await press(page, 'Use a passkey');
    await page.waitForURL('**/ui/');
    assert.equal(await isOut(page), false);

    // After the password, with ten codes that are shown once.
    await page.goto(`${address}/ui/account`);
    await press(page, 'Ask for a passkey after the password');
    await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
    const codes = await page.locator('#recovery-codes code').allTextContents();
    assert.equal(new Set(codes).size, 10);
    for (const code of codes) assert.match(code, /^[a-z0-9]{4}(-[a-z0-9]{4}){3}$/);
    await page.goto(`${address}/ui/account`);
    assert.ok(!(await page.content()).includes(codes[0] ?? ''));
    await press(page, 'Remove');
    await page.getByRole('heading', { name: 'This passkey is needed' }).waitFor();
    await page.goto(`${address}/ui/account`);
    await press(page, 'Sign out');
    await fillInSignIn(page, alice.credentials);
    await page.getByRole('heading', { name: 'One more step' }).waitFor();
    await isAccessible(page);
    await press(page, 'Use a passkey');
    await page.waitForURL('**/ui/');

    // Without scripts and passkey: the password alone opens nothing, a code does, and once.
    const tab = new Tab(service);
    const asked = await tab.signIn(alice.credentials);
    assert.match(asked.text, /One more step/);
    assert.equal((await tab.get('/ui/')).status, 303);
    const wrong = await tab.submit(asked, '/ui/sign-in/second', { recovery_code: 'aaaa-aaaa-aaaa-aaaa' });
    assert.equal(wrong.status, 401);
    const [code = ''] = codes;
    const right = await tab.submit(wrong, '/ui/sign-in/second', {
      recovery_code: code.toUpperCase().replaceAll('-', ' '),
    });
    assert.equal(right.status, 303, right.text);
    assert.equal((await tab.get('/ui/')).status, 200);
    const again = new Tab(service);
    const used = await again.submit(await again.signIn(alice.credentials), '/ui/sign-in/second', {
      recovery_code: code,
    });
    assert.equal(used.status, 401, 'each is good once');

    // Nor does a link to set the password go round it.
    const { db, ids } = service.store;
    const { id = 0n } = (await findUser(db.read, alice.email)) ?? {};
    const { token } = await db.transaction((trx) => insertLink(trx, ids, id));
    const set = new Tab(service);
    const password = 'four quite ordinary words';
    await set.submit(await set.get(`/ui/password?token=${token}`), '/ui/password', { password, again: password });
    const next = await set.signIn({ email: alice.email, password });
    assert.match(next.text, /One more step/);
    assert.equal((await set.get('/ui/')).status, 303);
  });

  test('of somebody else, of another sign-in and of somebody suspended open nothing', async () => {
    const [bob, eve] = [await service.user(), await service.user()];
    const page = await signedIn(eve);
    await add(page, 'Evil');
    const { db, ids } = service.store;
    const { id: bobsId = 0n } = (await findUser(db.read, bob.email)) ?? {};
    const row = { name: 'Bobs', credential_id: 'b', public_key: 'k', counter: 0n, transports: '', last_used_at: null };
    await db.transaction(async (trx) => {
      await trx
        .insertInto('passkeys')
        .values({ ...row, id: ids.next(), user_id: bobsId, created_at: 1n })
        .execute();
      await trx.updateTable('users').set({ asks_passkey: 1 }).where('id', '=', bobsId).execute();
    });
    // Eve knows Bob's password, and answers with a passkey of her own.
    const sent: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/passkey-answer')) sent.push(request.postData() ?? '');
    });
    await press(page, 'Sign out');
    await press(page, 'Sign in with a passkey');
    await press(page, 'Use a passkey');
    await page.waitForURL('**/ui/');
    const answer = new URLSearchParams(sent[0]).get('answer') ?? '';
    assert.match(answer, /clientDataJSON/);
    const tab = new Tab(service);
    const refused = await tab.submit(await tab.signIn(bob.credentials), '/ui/sign-in/second', { answer });
    assert.equal(refused.status, 401);
    const replay = new Tab(service);
    await replay.submit(await replay.get('/ui/sign-in'), '/ui/sign-in/passkey');
    const replayed = await replay.submit(await replay.get('/ui/sign-in'), '/ui/sign-in/passkey', {});
    assert.equal((await replay.submit(replayed, '/ui/sign-in/passkey-answer', { answer })).status, 401);
    await service.suspend(eve);
    await page.goto(`${address}/ui/sign-in`);
    await press(page, 'Sign in with a passkey');
    await press(page, 'Use a passkey');
    await page.getByText('This account is suspended').waitFor();
  });

  test('or the password are asked for again before an old session makes credentials [promise: fresh-proof]', async () => {
    const carol = await service.user();
    const page = await signedIn(carol);
    await add(page, 'Key');
    await age(carol);
    const tab = new Tab(service);
    await tab.signIn(carol.credentials);
    await age(carol);
    const before = await tab.get('/ui/account');
    for (const [from, action, fields] of [
      ['/ui/applications', '/ui/applications', { do: 'key' }],
      ['/ui/account', '/ui/account/passkeys/new', {}],
      ['/ui/account', '/ui/account/second', { on: '1' }],
    ] as const) {
      const asked = await tab.submit(await tab.get(from), action, fields);
      assert.match(asked.headers.location ?? '', /^\/ui\/confirm\?return=/, action);
    }
    assert.equal(before.status, 200);
    // Deleting the account asks who has a passkey for it, and others for their password.
    for (const path of ['/ui/applications/new', '/ui/account/tokens/new', '/ui/account/delete'])
      assert.equal((await tab.get(path)).headers.location, `/ui/confirm?return=${encodeURIComponent(path)}`);
    const key = /name="form_key" value="([^"]+)"/.exec(before.text)?.[1] ?? '';
    const direct = await tab.post('/ui/applications/new', {
      form_key: key,
      do: 'register',
      name: 'x',
      redirect_uris: 'https://x.example',
    });
    assert.match(direct.headers.location ?? '', /^\/ui\/confirm/);
    const unproven = await tab.post('/ui/account/tokens/new', {
      form_key: key,
      do: 'make',
      name: 'x',
      'scopes[]': 'user',
    });
    assert.match(unproven.headers.location ?? '', /^\/ui\/confirm/);
    assert.deepEqual((await carol.get('/tokens')).list, []);
    const left = await tab.post('/ui/account/delete', { form_key: key });
    assert.match(left.headers.location ?? '', /^\/ui\/confirm/);
    const wrong = await tab.submit(await tab.get('/ui/confirm?return=/ui/account'), '/ui/confirm', {
      password: 'wrong',
      answer: '',
    });
    assert.match(wrong.text, /The password is wrong/);
    const form = await tab.get('/ui/confirm?return=/ui/applications');
    const right = await tab.submit(form, '/ui/confirm', { password: carol.credentials.password, answer: '' });
    assert.deepEqual([right.status, right.headers.location], [303, '/ui/applications']);
    assert.match(
      (await tab.submit(await tab.get('/ui/applications'), '/ui/applications', { do: 'key' })).text,
      /id="api-key"/,
    );

    await page.goto(`${address}/ui/account`);
    await press(page, 'Add a passkey');
    await page.getByRole('heading', { name: 'Is it you?' }).waitFor();
    await isAccessible(page);
    await press(page, 'Use a passkey');
    await page.waitForURL('**/ui/account');
    await press(page, 'Add a passkey');
    await page.getByRole('heading', { name: 'Add a passkey' }).waitFor();
    await press(page, 'Create the passkey');
    await page.getByText('This device already has a passkey').waitFor();

    await page.goto(`${address}/ui/account/delete`);
    await isAccessible(page);
    await press(page, 'Delete the account');
    await page.waitForURL('**/ui/sign-in');
    assert.equal((await carol.get('/whoami')).status, 401);
    assert.equal((await tab.get('/ui/account')).status, 303);
  });
});
