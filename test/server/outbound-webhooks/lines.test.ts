import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notifyOfDependency } from '../../../src/server/lifecycle/webhook-events.ts';
import { forgetOldDeliveries } from '../../../src/server/outbound-webhooks/retention.ts';
import { assertDestroyed } from '../../support/expect.ts';
import { payloadOf, Receiver, reply } from '../../support/receiver.ts';
import { setDependencyState } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import { isDelivered, moveDependency, startOtherSender, startTelling } from './support.ts';

const day = 24 * 60 * 60 * 1000;

describeService(
  'the line of a notification',
  (service) => {
    test('is kept in order and loses nothing, with two servers at it and many who bring news', async (t) => {
      await startOtherSender(t, service, 'https://ci.example.org');
      const { db } = service.store;
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      const many = 150;
      // In bursts, so that the line runs dry now and then just as news comes.
      for (let from = 0; from < many; from += 15) {
        await Promise.all(Array.from({ length: 15 }, (_, at) => telling.happen(`state_${from + at}`)));
      }
      await receiver.received(many + 1);
      const stored = await db.read
        .selectFrom('webhook_deliveries')
        .select('id')
        .where('notification_id', '=', telling.notification.id)
        .orderBy('position')
        .execute();
      assert.deepEqual(
        receiver.calls.map(({ headers }) => headers['webhook-id']),
        stored.map(({ id }) => String(id)),
      );
      await telling.settled(isDelivered);
      const jobs = db.read.selectFrom('jobs').select('id').where('subject_id', '=', telling.notification.id);
      while ((await jobs.execute()).length > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    });

    test('takes in news that is being written just as it runs dry', async () => {
      let answer = (): void => {};
      await using receiver = await Receiver.start((response) => (answer = () => void response.end()));
      const user = await service.user();
      const dependency = await user.createDependency();
      await startTelling(service, receiver, user);
      await receiver.received(1);
      receiver.answer = reply(200);
      const { db, ids } = service.store;
      await db.transaction(async (trx) => {
        await notifyOfDependency({ db, trx, ids }, dependency.id);
        answer();
        // Long enough for the server to note the answer, if it did not wait for this transaction.
        await new Promise((resolve) => setTimeout(resolve, 300));
      });
      assert.deepEqual(await receiver.types(2), ['ping', 'dependency.waiting_archive_upload']);
    });

    test('ends with its notification', async () => {
      await using receiver = await Receiver.start(reply(503));
      const telling = await startTelling(service, receiver);
      await telling.happen('compiling');
      await receiver.received(1);
      assertDestroyed(await telling.user.delete(telling.path));
      await assertNothingLeft(telling.notification.id);
    });

    test('ends with its project', async () => {
      await using receiver = await Receiver.start(reply(503));
      const telling = await startTelling(service, receiver);
      await telling.happen('compiling');
      await receiver.received(1);
      assertDestroyed(await telling.user.delete(`/projects/${telling.project.id}`));
      await assertNothingLeft(telling.notification.id);
    });

    /** No delivery job, so nothing can be sent, and nothing to send. */
    async function assertNothingLeft(notificationId: bigint): Promise<void> {
      const { read } = service.store.db;
      assert.deepEqual(
        await read.selectFrom('jobs').select('id').where('subject_id', '=', notificationId).execute(),
        [],
      );
      const deliveries = read
        .selectFrom('webhook_deliveries')
        .select('id')
        .where('notification_id', '=', notificationId);
      assert.deepEqual(await deliveries.execute(), []);
    }

    test('takes in again what somebody wants sent once more', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      await telling.happen('compiling');
      await telling.happen('compiled');
      await telling.settled(isDelivered);
      const [ping] = await telling.deliveries();
      const answer = await telling.user.post(`${telling.path}/deliveries/${ping?.id}/redeliver`);
      assert.deepEqual([answer.status, answer.record.state], [200, 'pending']);
      const calls = await receiver.received(4);
      assert.equal(calls[3]?.headers['webhook-id'], ping?.id_str);
      assert.equal(calls[3]?.body, calls[0]?.body);
      const [again] = await telling.settled(isDelivered);
      assert.deepEqual([again?.id, again?.attempts.length], [ping?.id, 2]);
    });

    test('is forgotten a month after it was sent, and what still waits is not', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      await telling.settled(isDelivered);
      receiver.answer = reply(500);
      await telling.happen('compiling');
      await receiver.received(2);
      const types = async (): Promise<string[]> => (await telling.deliveries()).map(({ type }) => type);
      const { db } = service.store;
      await forgetOldDeliveries(db, Date.now() + 29 * day);
      assert.deepEqual(await types(), ['ping', 'dependency.compiling']);
      await forgetOldDeliveries(db, Date.now() + 31 * day);
      assert.deepEqual(await types(), ['dependency.compiling']);
    });

    test('is one of many, and all are told of one event', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      const many = 150;
      for (let count = 1; count < many; count += 1) {
        const fields = { 'options[url]': receiver.url, notifiable_type: 'dependency' };
        await telling.user.createNotification(telling.project, fields);
      }
      await receiver.received(many);
      await telling.happen('compiled');
      const types = await receiver.types(2 * many);
      assert.deepEqual(new Set(types.slice(many)), new Set(['dependency.compiled']));
      assert.equal(new Set(receiver.calls.map(({ headers }) => headers['webhook-id'])).size, 2 * many);
    });

    test('holds up nobody, however many receivers of an account are silent', async () => {
      await using silent = await Receiver.start(() => {});
      await using quick = await Receiver.start();
      const [crowd, bystander] = [await service.user(), await service.user()];
      const project = await crowd.createProject();
      // More than one account gets places for, and many at a time: they are claimed by the dozen.
      await Promise.all(
        Array.from({ length: 140 }, () => crowd.createNotification(project, { 'options[url]': silent.url })),
      );
      await silent.received(128);
      // The crowd is to be told of the bystander's dependency too, in the same breath.
      const shared = await bystander.createDependency();
      await setDependencyState(service.store, shared, 'shared');
      const suite = await crowd.createSuite(project);
      await crowd.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: shared.id });
      await crowd.createNotification(project, { 'options[url]': silent.url, notifiable_type: 'dependency' });
      await startTelling(service, quick, bystander);
      await moveDependency(service, shared, 'shared');
      assert.deepEqual(await quick.types(2), ['ping', 'dependency.shared']);
      assert.equal(silent.calls.length, 128, 'the silent ones were all still waiting');
      assertDestroyed(await crowd.delete(`/projects/${project.id}`));
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    // Nobody is given up here for being slow, however long a test takes.
    webhooks: { retryPolicy: { answerWithin: 600_000, firstWait: 100, longestWait: 600_000 } },
  },
);

describeService(
  'a line that was put off for long',
  (service) => {
    test('goes on to a new address, with what the old one did not take', async () => {
      await using wrong = await Receiver.start(reply(404));
      await using right = await Receiver.start();
      const telling = await startTelling(service, wrong);
      await telling.happen('compiling');
      await telling.settled(({ type, attempts }) => type !== 'ping' || attempts.length === 1);
      await telling.user.put(telling.path, { 'options[url]': right.url });
      assert.deepEqual(await right.types(2), ['ping', 'dependency.compiling']);
    });

    test('says since when its receiver refuses and when the next try is, and is tried at once when asked', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      const state = async () => (await telling.user.get(`${telling.path}/receiver`)).record;
      await telling.settled(isDelivered);
      const calm = {
        failing_since: null,
        status: null,
        answer: '',
        error: '',
        tries: 0,
        next_try_at: null,
        waiting: 0,
      };
      assert.deepEqual({ ...(await state()) }, calm);
      receiver.answer = reply(503, 'closed for repairs');
      await telling.happen('compiling');
      await telling.happen('compiled');
      const [, first] = await telling.settled(
        ({ type, attempts }) => type !== 'dependency.compiling' || attempts.length === 1,
      );
      const { next_try_at: next, ...failing } = await state();
      const since = (first?.attempts[0] as { created_at?: string } | undefined)?.created_at;
      assert.deepEqual(failing, {
        ...failing,
        failing_since: since,
        status: 503,
        answer: 'closed for repairs',
        tries: 1,
        waiting: 2,
      });
      assert.ok(Date.parse(String(next)) > Date.now() + 60_000, String(next));
      receiver.answer = reply(204);
      assert.equal((await telling.user.post(`${telling.path}/try_now`)).status, 200);
      await telling.settled(isDelivered);
      assert.deepEqual({ ...(await state()) }, calm);
      // What belongs to somebody else can be neither read nor tried.
      const stranger = await service.user();
      assert.equal((await stranger.get(`${telling.path}/receiver`)).status, 404);
      assert.equal((await stranger.post(`${telling.path}/try_now`)).status, 404);
    });

    test('is tried at once, all of it, when somebody asks for one delivery again', async () => {
      await using receiver = await Receiver.start(reply(500));
      const telling = await startTelling(service, receiver);
      await telling.happen('compiling');
      const [ping, compiling] = await telling.settled(({ type, attempts }) => type !== 'ping' || attempts.length === 1);
      receiver.answer = reply(200);
      await telling.user.post(`${telling.path}/deliveries/${compiling?.id}/redeliver`);
      const ids = (await receiver.received(3)).map(({ headers }) => headers['webhook-id']);
      assert.deepEqual(ids, [ping?.id_str, ping?.id_str, compiling?.id_str]);
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    webhooks: { retryPolicy: { firstWait: 600_000, longestWait: 600_000 } },
  },
);

describeService(
  'a receiver that stays away',
  (service) => {
    test('is given up on, with everything that waited as long', async () => {
      await using receiver = await Receiver.start(reply(500));
      const telling = await startTelling(service, receiver);
      await telling.happen('compiling');
      const [ping, compiling] = await telling.settled(({ state }) => state === 'failed');
      assert.ok((ping?.attempts.length ?? 0) >= 1);
      const calls = receiver.calls.length;
      receiver.answer = reply(200);
      await telling.happen('compiled');
      await telling.settled(({ type, state }) => type !== 'dependency.compiled' || state === 'delivered');
      assert.equal(payloadOf(receiver.calls[calls]?.body ?? '').type, 'dependency.compiled');
      await telling.user.post(`${telling.path}/deliveries/${compiling?.id}/redeliver`);
      await telling.settled(({ id, state }) => id !== compiling?.id || state === 'delivered');
      assert.equal(receiver.calls.at(-1)?.headers['webhook-id'], compiling?.id_str);
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    webhooks: { retryPolicy: { firstWait: 100, longestWait: 200, giveUpAfter: 400 } },
  },
);
