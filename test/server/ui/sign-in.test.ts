import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { before, beforeEach, test } from 'node:test';
import { updateUser } from '../../../src/server/auth/users.ts';
import type { Answer } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const sessionCookie = '__Host-headrace_session';

describeServiceOnOne('signing in', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  // All of these tests come from one address, whose patience is not what most of them are about.
  beforeEach(() => service.store.db.transaction((trx) => trx.deleteFrom('sign_in_failures').execute()));

  const signedIn = async (user = alice): Promise<Tab> => {
    const tab = new Tab(service);
    assert.equal((await tab.signIn(user.credentials)).status, 303);
    return tab;
  };
  /** Whether the pages know somebody. */
  const knows = async (tab: Tab): Promise<boolean> => (await tab.get('/ui/')).status === 200;
  const setCookies = (answer: Answer): string[] => answer.headers['set-cookie'] ?? [];

  test('leads to where one wanted to go, and signing out ends it on the server', async () => {
    const tab = new Tab(service);
    const away = await tab.get('/ui/applications');
    assert.deepEqual([away.status, away.headers.location], [303, '/ui/sign-in?return=%2Fui%2Fapplications']);
    const form = await tab.get(away.headers.location ?? '');
    const back = await tab.submit(form, '/ui/sign-in', { ...alice.credentials });
    assert.deepEqual([back.status, back.headers.location], [303, '/ui/applications']);
    const page = await tab.get('/ui/applications');
    assert.equal(page.status, 200);
    assert.ok(page.text.includes(alice.email));

    const stolen = new Tab(service);
    stolen.cookies.set(sessionCookie, tab.cookies.get(sessionCookie) ?? '');
    assert.ok(await knows(stolen));
    await tab.submit(page, '/ui/sign-out');
    assert.ok(!tab.cookies.has(sessionCookie));
    assert.ok(!(await knows(stolen)));
  });

  test('takes an address in any spelling', async () => {
    const answer = await new Tab(service).signIn({ ...alice.credentials, email: ` ${alice.email.toUpperCase()} ` });
    assert.equal(answer.status, 303);
  });

  test('keeps the session in a cookie that scripts, other hosts and plain HTTP do not see', async () => {
    const answer = await new Tab(service).signIn(alice.credentials);
    const [line = ''] = setCookies(answer).filter((one) => one.startsWith(`${sessionCookie}=`));
    const [value = '', ...attributes] = line.split('; ');
    assert.match(value, /=hrn_[\w-]{43}$/);
    assert.deepEqual(attributes, ['Path=/', 'HttpOnly', 'SameSite=Lax', 'Secure', 'Max-Age=1209600']);
  });

  test('begins a new session each time, and takes over none that was planted', async () => {
    const [mallory, planted] = [await signedIn(await service.user()), `hrn_${'a'.repeat(43)}`];
    for (const session of [mallory.cookies.get(sessionCookie) ?? '', planted]) {
      const victim = new Tab(service);
      const form = await victim.get('/ui/sign-in');
      victim.cookies.set(sessionCookie, session);
      // Somebody who is signed in already gets no form: the attacker's session shows, as the attacker.
      const fresh = session === planted ? await victim.get('/ui/sign-in') : form;
      if (session !== planted) victim.cookies.delete(sessionCookie);
      await victim.submit(fresh, '/ui/sign-in', { ...alice.credentials });
      const given = victim.cookies.get(sessionCookie);
      assert.notEqual(given, session);
      const attacker = new Tab(service);
      attacker.cookies.set(sessionCookie, session);
      assert.ok(!(await attacker.get('/ui/')).text.includes(alice.email));
    }
    const tab = await signedIn();
    const first = tab.cookies.get(sessionCookie) ?? '';
    // The form of a page that was opened before; it carries the key of the session now.
    const page = await tab.get('/ui/');
    const key = /name="form_key" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const again = await tab.post('/ui/sign-in', { form_key: key, ...alice.credentials, return: '/ui/' });
    assert.equal(again.status, 303);
    assert.notEqual(tab.cookies.get(sessionCookie), first);
    const old = new Tab(service);
    old.cookies.set(sessionCookie, first);
    assert.ok(!(await knows(old)), 'the one before is over');
  });

  test('says the same, and works as hard, whether there is such an account or not', async () => {
    const invited = `invited-${Date.now()}@example.org`;
    await alice.invite(await alice.createProject(), { email: invited });
    let hashes = 0;
    const hook = createHook({
      init: (_id, type) => {
        if (/ARGON/i.test(type)) hashes += 1;
      },
    });
    hook.enable();
    const seen = [];
    const known = await service.user();
    for (const email of [known.email, 'nobody@example.org', 'no address', invited]) {
      const tab = new Tab(service);
      const page = await tab.get('/ui/sign-in');
      hashes = 0;
      const answer = await tab.submit(page, '/ui/sign-in', { email, password: 'wrong' });
      const text = answer.text.replaceAll(email, 'E').replaceAll(/value="[\w-]{86}"/g, '');
      seen.push({ status: answer.status, hashes, text });
    }
    hook.disable();
    assert.deepEqual([seen[0]?.status, seen[0]?.hashes], [401, 1]);
    assert.match(seen[0]?.text ?? '', /role="alert"/);
    for (const one of seen) assert.deepEqual(one, seen[0]);
  });

  test('slows down guesses at one account, also those that come at once [promise: account-guessing]', async () => {
    const [victim, tab] = [await service.user(), new Tab(service)];
    const page = await tab.get('/ui/sign-in');
    const guess = (password: string, email = victim.email) => tab.submit(page, '/ui/sign-in', { email, password });
    const statuses = (await Promise.all(Array.from({ length: 12 }, () => guess('wrong')))).map(({ status }) => status);
    const looked = statuses.filter((status) => status === 401).length;
    assert.ok(looked >= 6 && looked < 12, `some are free, and not all: ${looked}`);
    const { db } = service.store;
    const subjects = db.read.selectFrom('sign_in_failures').selectAll().where('subject', 'like', 'account:%');
    const counted = (await subjects.orderBy('last_at', 'desc').execute())[0];
    assert.ok(counted && counted.failures >= 6);
    assert.doesNotMatch(counted.subject, /@/);
    await db.transaction((trx) =>
      trx
        .updateTable('sign_in_failures')
        .set({ failures: 40, refused_until: 0n })
        .where('id', '=', counted.id)
        .execute(),
    );
    assert.equal((await guess('wrong')).status, 401);
    for (const password of ['wrong', victim.credentials.password]) {
      const refused = await guess(password);
      assert.equal(refused.status, 429);
      const seconds = Number(refused.headers['retry-after']);
      assert.ok(seconds > 0 && seconds <= 30, `${seconds}: its owner must not be kept out for long`);
      assert.match(refused.text, /Wait \d+ seconds/);
    }
    assert.equal((await new Tab(service).signIn(alice.credentials)).status, 303, 'others are not held up');
    await db.transaction((trx) =>
      trx.updateTable('sign_in_failures').set({ refused_until: 0n }).where('id', '=', counted.id).execute(),
    );
    assert.equal((await guess(victim.credentials.password)).status, 303);
    assert.equal((await subjects.where('id', '=', counted.id).execute()).length, 0, 'and all is forgiven');
  });

  test('slows down guesses from one address, whichever account they are at [promise: account-guessing]', async () => {
    const { db } = service.store;
    const ofAddress = db.read.selectFrom('sign_in_failures').selectAll().where('subject', '=', 'address:127.0.0.1');
    const set = (failures: number): Promise<unknown> =>
      db.transaction((trx) =>
        trx
          .updateTable('sign_in_failures')
          .set({ failures, refused_until: 0n })
          .where('subject', '=', 'address:127.0.0.1')
          .execute(),
      );
    await new Tab(service).signIn({ email: 'one@example.org', password: 'x' });
    await set(10);
    await new Tab(service).signIn(alice.credentials);
    assert.equal((await ofAddress.executeTakeFirst())?.failures, 10, 'a success counts for nothing');
    const minutes = (count: number): Promise<unknown> =>
      db.transaction((trx) =>
        trx
          .updateTable('sign_in_failures')
          .set((of) => ({ last_at: of('last_at', '-', BigInt(count * 60_000)) }))
          .where('subject', '=', 'address:127.0.0.1')
          .execute(),
      );
    await set(15);
    await minutes(10);
    await new Tab(service).signIn({ email: 'four@example.org', password: 'x' });
    assert.equal((await ofAddress.executeTakeFirst())?.failures, 6, 'ten minutes forgive ten');
    await set(100);
    assert.equal((await new Tab(service).signIn({ email: 'two@example.org', password: 'x' })).status, 401);
    const refused = await new Tab(service).signIn({ email: 'three@example.org', password: 'x' });
    assert.equal(refused.status, 429);
    assert.match(refused.text, /Wait 15 minutes/);
  });

  test('is over for somebody who is suspended, whose password changed, or whose time has come', async () => {
    const { db } = service.store;
    const bob = await service.user();
    const tab = await signedIn(bob);
    await service.suspend(bob);
    assert.ok(!(await knows(tab)));
    const refused = await new Tab(service).signIn(bob.credentials);
    assert.deepEqual([refused.status, /suspended/.test(refused.text)], [401, true]);
    const guessed = await new Tab(service).signIn({ ...bob.credentials, password: 'x' });
    assert.ok(!guessed.text.includes('suspended'));
    await db.transaction((trx) => updateUser(trx, bob.email, { suspended: 0 }));
    assert.ok(await knows(tab));
    await db.transaction((trx) => updateUser(trx, bob.email, { password_hash: null }));
    assert.ok(!(await knows(tab)));

    const late = await signedIn();
    const ended = { expires_at: BigInt(Date.now()) };
    await db.transaction((trx) => trx.updateTable('sessions').set(ended).execute());
    assert.ok(!(await knows(late)));
  });

  test('never leads off the site', async () => {
    const evil = [
      'https://evil.example/',
      '//evil.example/',
      '/\\evil.example/',
      '\\\\evil.example',
      '/\t/evil.example/',
      ' //evil.example',
      '/ui/../../evil',
      '/ui/..//evil.example',
      'javascript:alert(1)',
      '/oauth2/authorize/../../..//evil.example',
      '/projects',
      '',
    ];
    const tab = new Tab(service);
    for (const target of evil) {
      const page = await tab.get(`/ui/sign-in?return=${encodeURIComponent(target)}`);
      const answer = await tab.submit(page, '/ui/sign-in', { ...alice.credentials, return: target });
      assert.equal(answer.status, 303, target);
      assert.equal(answer.headers.location, '/ui/', target);
      const known = await tab.get(`/ui/sign-in?return=${encodeURIComponent(target)}`);
      assert.equal(known.headers.location, '/ui/', target);
      tab.cookies.clear();
    }
  });

  test('takes no form that did not come from its own page', async () => {
    const tab = new Tab(service);
    const page = await tab.get('/ui/sign-in');
    const fields = { ...alice.credentials };
    const others = /name="form_key" value="([^"]+)"/.exec((await new Tab(service).get('/ui/sign-in')).text)?.[1];
    for (const key of [undefined, '', 'x', others, '[object Object]']) {
      const answer = await tab.submit(page, '/ui/sign-in', { ...fields, form_key: key });
      assert.equal(answer.status, 403, String(key));
    }
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'http://127.0.0.1:1' },
    ]) {
      assert.equal((await tab.submit(page, '/ui/sign-in', fields, headers)).status, 403, JSON.stringify(headers));
    }
    assert.ok(!tab.cookies.has(sessionCookie));
    const json = await service.api.post('/ui/sign-in', { json: fields });
    assert.equal(json.status, 400);
    const ours = { origin: service.address, 'sec-fetch-site': 'same-origin' };
    assert.equal((await tab.submit(page, '/ui/sign-in', fields, ours)).status, 303);
  });
});
