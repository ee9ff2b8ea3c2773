import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createMailer, type Mailer } from '../../src/server/mail/mailer.ts';
import { startTellingOfTokens } from '../../src/server/token-ends.ts';
import { createTlsTrust } from '../../src/shared/lib/tls-trust.ts';
import { MailServer } from '../support/mail-server.ts';
import { freePort } from '../support/ports.ts';
import { describeService } from '../support/service.ts';
import type { User } from '../support/user.ts';

const hour = 60 * 60 * 1000;

describe('the end of a token', () => {
  let mail: MailServer;
  before(async () => {
    mail = await MailServer.start();
  });
  after(() => mail[Symbol.asyncDispose]());

  const mailerOf = (url: string): Mailer =>
    createMailer({ url, from: 'ci@example.org', trust: createTlsTrust(undefined), answerWithin: 10_000 });

  describeService('is told to its owner', (service) => {
    const make = async (user: User, name: string, hours: number): Promise<bigint> => {
      const end = new Date(Date.now() + hours * hour).toISOString();
      const answer = await user.post('/tokens', { name, 'scopes[]': 'projects', expires_at: end });
      assert.equal(answer.status, 201, answer.text);
      return answer.record.id;
    };
    const telling = (mailer: Mailer) =>
      startTellingOfTokens({
        db: service.store.db,
        mailer,
        origin: 'https://ci.example.org',
        onError: (error) => assert.fail(String(error)),
      });
    const tellAt = async (id: bigint): Promise<number> => {
      const rows = service.store.db.read.selectFrom('user_tokens').select('tell_at').where('id', '=', id);
      return Number((await rows.executeTakeFirstOrThrow()).tell_at);
    };

    test('on the dashboard for three days, and to nobody else', async () => {
      const alice = await service.user();
      await make(alice, 'later', 100);
      await make(alice, 'for an hour', 1);
      const id = await make(alice, 'soon', 48);
      const ending = async (user: User) =>
        ((await user.get('/dashboard')).record.ending_tokens as { id: bigint }[]).map((token) => token.id);
      assert.deepEqual(await ending(alice), [id]);
      assert.deepEqual(await ending(await service.user()), []);
      const form = { name: 'own', 'scopes[]': 'projects', expires_at: new Date(Date.now() + 200 * hour).toISOString() };
      const { token } = (await alice.post('/tokens', form)).record;
      assert.deepEqual(await ending(service.signIn({ ...alice.credentials, api_key: String(token) })), []);
    });

    test('by one e-mail for each token, also with two servers, and again if the mail server was away', async () => {
      const ada = await service.user();
      const earlier = (await mail.letters(0)).length;
      await make(ada, 'later', 100);
      await make(ada, 'for an hour', 1);
      const gone = await service.user();
      await make(gone, 'of someone suspended', 48);
      await service.suspend(gone);

      // Nobody listens there. The token is told of later, and not forgotten.
      const missed = await make(ada, 'alpha-script', 48);
      const away = telling(mailerOf(`smtp://127.0.0.1:${await freePort()}`));
      while ((await tellAt(missed)) < Date.now()) await new Promise((resolve) => setTimeout(resolve, 20));
      await away.close();
      await service.store.db.transaction((trx) =>
        trx.updateTable('user_tokens').set({ tell_at: 0n }).where('id', '=', missed).execute(),
      );

      const servers = [telling(mailerOf(mail.url)), telling(mailerOf(mail.url))];
      await mail.letters(earlier + 1);
      for (const name of ['beta-script', 'gamma-script', 'delta-script']) await make(ada, name, 48);
      await mail.letters(earlier + 4);
      await Promise.all(servers.map((server) => server.close()));
      const told = (await mail.letters(earlier + 4)).slice(earlier);
      assert.equal(told.length, 4);
      for (const name of ['alpha-script', 'beta-script', 'gamma-script', 'delta-script'])
        assert.equal(told.filter(({ body }) => body.includes(name)).length, 1, name);
      for (const { headers, body } of told) {
        assert.equal(headers.get('to'), ada.email);
        assert.ok(body.includes('https://ci.example.org/ui/account/tokens'));
        assert.ok(!body.includes('hrt_'));
      }
    });
  });
});
