import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { identitiesTopic } from '../../../src/server/auth/identities.ts';
import { insertLink } from '../../../src/server/auth/password-links.ts';
import { updateUser } from '../../../src/server/auth/users.ts';
import type { IdentityRow, UserRow } from '../../../src/server/db/schema.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { Listener } from '../../support/firehose.ts';
import { buttonOf, issuerSettings, RealIssuer, signInAs, signInThere } from '../../support/issuer.ts';
import { growingPauses, longestWait } from '../../support/pauses.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const minute = 60_000;

describe('people of an issuer', () => {
  onEveryDatabase((database) => {
    let issuer: RealIssuer;
    let service: Service;
    before(async () => {
      issuer = await RealIssuer.start(database);
      const settings = issuerSettings(issuer.url, {
        oidc_allowed_groups: 'builders,admins',
        oidc_operator_group: 'operators',
      });
      service = new Service(database, { settings, streamPauseMs: 50 });
      await service.start();
    });

    const rowOf = async (email: string): Promise<UserRow> =>
      service.store.db.read.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirstOrThrow();
    const changeIdentity = (email: string, change: Partial<IdentityRow>) =>
      service.store.db.transaction(async (trx) => {
        const of = trx.selectFrom('users').select('id').where('email', '=', email);
        await trx.updateTable('identities').set(change).where('user_id', '=', of).execute();
        await service.store.db.announce(trx, identitiesTopic);
      });
    /** The quarter of an hour is over. Waits until a server has asked the issuer. */
    const pass = async (email: string, told: (user: UserRow, identity: IdentityRow) => boolean): Promise<void> => {
      const before = BigInt(Date.now());
      await changeIdentity(email, { look_at: before - 1n });
      const pause = growingPauses();
      for (;;) {
        const user = await rowOf(email);
        const all = service.store.db.read.selectFrom('identities').selectAll().where('user_id', '=', user.id);
        const identity = await all.executeTakeFirstOrThrow();
        if (told(user, identity)) return;
        assert.ok(Date.now() - Number(before) < longestWait, JSON.stringify([user.shut_out, String(identity.look_at)]));
        await pause();
      }
    };
    const isRenewed = (_: UserRow, { look_at: at, silent_since: since }: IdentityRow) =>
      since === null && at !== null && Number(at) > Date.now() + 10 * minute;

    /** Somebody with a session and an API key. */
    const enter = async (name: string): Promise<{ tab: Tab; user: User }> => {
      const email = `${name}@example.org`;
      issuer.people.set(name, { email, email_verified: true, groups: ['builders'] });
      const tab = new Tab(service);
      assert.equal((await signInAs(issuer, name, tab)).status, 303);
      const made = await tab.submit(await tab.get('/ui/applications'), '/ui/applications', { do: 'key' });
      const [, key = ''] = /id="api-key">([^<]+)</.exec(made.text) ?? [];
      return { tab, user: service.signIn({ email, password: '', api_key: key }) };
    };
    const status = async (user: User) => (await service.api.get('/whoami', { as: user.credentials })).status;

    test('are asked about by the server itself, and out when they have left their groups [promise: issuer-leavers]', async () => {
      const { tab, user } = await enter('ada');
      assert.equal(await status(user), 200);
      await pass(user.email, isRenewed);
      assert.deepEqual([await status(user), (await tab.get('/ui/')).status], [200, 200]);
      const stream = await Listener.open(user, '/changes');
      const ended = stream.rest();
      const { db, ids } = service.store;
      const { id } = await rowOf(user.email);
      const { token } = await db.transaction((trx) => insertLink(trx, ids, id));

      issuer.people.set('ada', { email: user.email, email_verified: true, groups: ['guests'] });
      await pass(user.email, ({ shut_out: why }) => why === 'group');
      assert.equal(await status(user), 401);
      assert.equal((await tab.get('/ui/')).status, 303);
      await ended;
      assert.equal((await new Tab(service).get(`/ui/password?token=${token}`)).status, 404, 'the open link is over');
      const refused = await signInAs(issuer, 'ada', new Tab(service));
      assert.match(refused.text, /Your groups at Acme do not admit you/);

      issuer.people.set('ada', { email: user.email, email_verified: true, groups: ['admins'] });
      await pass(user.email, ({ shut_out: why }) => why === '');
      assert.equal(await status(user), 200, 'the groups admit them again');
      assert.equal((await tab.get('/ui/')).status, 303, 'and the session stays over');
    });

    test('are operators as long as they are in the group, and those made by hand stay', async () => {
      const { user } = await enter('oz');
      const claims = { email: user.email, email_verified: true };
      const operates = async () => (await service.api.get('/users', { as: user.credentials })).status;
      assert.equal(await operates(), 401);
      issuer.people.set('oz', { ...claims, groups: ['builders', 'operators'] });
      await pass(user.email, ({ operator }) => operator === 1);
      assert.equal(await operates(), 200);
      issuer.people.set('oz', { ...claims, groups: ['builders'] });
      await pass(user.email, ({ operator }) => operator === 0);
      assert.equal(await operates(), 401);
      await service.store.db.transaction((trx) => updateUser(trx, user.email, { operator: 1 }));
      await pass(user.email, isRenewed);
      assert.equal(await operates(), 200, 'made by hand');
    });

    test('are out when they are gone at the issuer', async () => {
      const { tab, user } = await enter('bob');
      issuer.people.delete('bob');
      await pass(user.email, ({ shut_out: why }) => why === 'gone');
      assert.deepEqual([await status(user), (await tab.get('/ui/')).status], [401, 303]);
      const audited = service.store.db.read.selectFrom('audit_entries').selectAll();
      const entry = await audited.where('action', '=', 'user.shut_out').where('details', 'like', '%gone%').execute();
      assert.equal(entry.length, 1);
    });

    test('stay in for an hour while the issuer gives no answer', async () => {
      const { tab, user } = await enter('carol');
      await issuer.close();
      await pass(user.email, (_, { silent_since: since }) => since !== null);
      assert.deepEqual([await status(user), (await tab.get('/ui/')).status], [200, 200]);
      await changeIdentity(user.email, { silent_since: BigInt(Date.now() - 59 * minute) });
      await pass(user.email, (_, { look_at: at }) => at !== null && Number(at) > Date.now());
      assert.equal(await status(user), 200);
      await changeIdentity(user.email, { silent_since: BigInt(Date.now() - 61 * minute) });
      await pass(user.email, ({ shut_out: why }) => why === 'silent');
      assert.deepEqual([await status(user), (await tab.get('/ui/')).status], [401, 303]);
      await issuer.open();
      await pass(user.email, ({ shut_out: why }) => why === '');
      assert.deepEqual([await status(user), (await tab.get('/ui/')).status], [200, 200], 'nothing was lost');
    });

    test('sign in again after a quarter of an hour, if the issuer gave nothing to ask with', async () => {
      issuer.givesRefreshTokens = false;
      const { tab, user } = await enter('dora');
      issuer.givesRefreshTokens = true;
      const { id } = await rowOf(user.email);
      const late = { proven_at: BigInt(Date.now() - 16 * minute) };
      await service.store.db.transaction((trx) =>
        trx.updateTable('sessions').set(late).where('user_id', '=', id).execute(),
      );
      const away = await tab.get('/ui/applications');
      assert.equal(away.status, 303);
      const there = await tab.get(away.headers.location ?? '');
      assert.equal(there.status, 302, 'without a button');
      assert.ok(there.headers.location?.startsWith(issuer.url));
      const back = await tab.get(await signInThere(there.headers.location ?? ''));
      assert.deepEqual([back.status, back.headers.location], [303, '/ui/applications']);
      assert.equal((await tab.get('/ui/applications')).status, 200);
    });

    test('prove who they are before they make credentials in an old session', async () => {
      const { tab, user } = await enter('fay');
      const { id } = await rowOf(user.email);
      const age = () =>
        service.store.db.transaction((trx) =>
          trx
            .updateTable('sessions')
            .set({ proven_at: BigInt(Date.now() - 16 * minute) })
            .where('user_id', '=', id)
            .execute(),
        );
      await age();
      const page = await tab.get('/ui/applications');
      assert.equal(page.status, 200);
      const asked = await tab.submit(page, '/ui/applications', { do: 'key' });
      assert.deepEqual([asked.status, asked.headers.location], [303, '/ui/confirm?return=%2Fui%2Fapplications']);
      assert.equal(await status(user), 200, 'the old key still works');
      const confirm = await tab.get(asked.headers.location ?? '');
      assert.match(confirm.text, /Sign in with Acme again/);
      issuer.people.set('other', { email: 'other@example.org', email_verified: true, groups: ['builders'] });
      issuer.signingIn = 'other';
      const foreign = await tab.get(await signInThere((await tab.get(buttonOf(confirm))).headers.location ?? ''));
      assert.match(foreign.text, /signed in at Acme as another user/);
      issuer.signingIn = 'fay';
      const there = await tab.get(buttonOf(await tab.get('/ui/confirm?return=/ui/applications')));
      assert.match(there.headers.location ?? '', /prompt=login/);
      const back = await tab.get(await signInThere(there.headers.location ?? ''));
      assert.deepEqual([back.status, back.headers.location], [303, '/ui/applications']);
      const made = await tab.submit(await tab.get('/ui/applications'), '/ui/applications', { do: 'key' });
      assert.match(made.text, /id="api-key"/);
    });
  });
});
