import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { rawReceiver, Receiver, reply } from '../../support/receiver.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { isDelivered, startTelling, type Delivery } from './support.ts';

const idOf = ({ headers }: { headers: Record<string, unknown> }): unknown => headers['webhook-id'];
const wasTried = ({ attempts }: Delivery): boolean => attempts.length > 0;

describeServiceOnOne(
  'receivers that',
  (service) => {
    test('fail at first are called again with the same identifier and words, before anything newer', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, receiver);
      await telling.settled(isDelivered);
      receiver.answer = reply(500, 'not now');
      await telling.happen('one');
      await receiver.received(2);
      await telling.happen('two');
      await receiver.received(3);
      receiver.answer = reply(204);
      const [, one, two] = await telling.settled(isDelivered);
      const [ping, ...rest] = receiver.calls;
      const again = rest.slice(0, -1);
      assert.ok(again.length >= 3);
      assert.deepEqual(new Set(again.map(idOf)), new Set([one?.id_str]));
      assert.equal(new Set(again.map(({ body }) => body)).size, 1);
      assert.deepEqual([ping, rest.at(-1)].map((call) => call && idOf(call)).at(-1), two?.id_str);
      const failed = Array.from({ length: again.length - 1 }, () => [500, 'not now', '']);
      assert.deepEqual(
        one?.attempts.map(({ status, answer, error }) => [status, answer, error]),
        [...failed, [204, '', '']],
      );
      assert.ok(one.attempts.every(({ duration_ms: taken }) => Number.isInteger(taken) && taken >= 0 && taken < 3000));
      const { text } = await service.api.get('/metrics');
      for (const outcome of ['delivered', 'failed']) {
        assert.match(text, new RegExp(`headrace_webhook_calls_total\\{outcome="${outcome}"\\} [1-9]`));
      }
    });

    test('redirect are not followed', async () => {
      await using elsewhere = await Receiver.start();
      await using receiver = await Receiver.start();
      for (const status of [301, 302, 303, 307, 308]) {
        const answers = [reply(status, 'that way', { location: elsewhere.url }), reply(200)];
        receiver.answer = (...call) => answers.shift()?.(...call);
        const [ping] = await (await startTelling(service, receiver)).settled(isDelivered);
        assert.deepEqual(
          ping?.attempts.map(({ status, answer }) => [status, answer]),
          [
            [status, 'that way'],
            [200, ''],
          ],
        );
      }
      assert.equal(elsewhere.calls.length, 0);
    });

    test('never answer hold nobody else up, and are tried again', async () => {
      await using silent = await Receiver.start(() => {});
      await using quick = await Receiver.start();
      const telling = await startTelling(service, silent);
      await silent.received(1);
      const other = await startTelling(service, quick, telling.user);
      await other.happen('compiled');
      await quick.received(2);
      assert.equal(silent.calls.length, 1, 'the others were served while the silent one kept its call');
      silent.answer = reply(200);
      const [ping] = await telling.settled(isDelivered);
      const [first, second] = ping?.attempts ?? [];
      assert.deepEqual([first?.status, first?.error], [null, 'no answer within 3 seconds']);
      assert.equal(second?.status, 200);
      assert.equal(new Set(silent.calls.slice(0, 2).map(idOf)).size, 1);
    });

    test('close the connection, or speak nonsense, are noted as what they are', async () => {
      const words = async (speak: Parameters<typeof rawReceiver>[0]): Promise<unknown> => {
        await using receiver = await rawReceiver(speak);
        const [ping] = await (await startTelling(service, receiver)).settled(wasTried);
        assert.equal(ping?.state, 'pending');
        const [{ status, error } = { status: 0, error: '' }] = ping.attempts;
        return [status, error];
      };
      const closed = [null, 'the connection was closed without an answer'];
      assert.deepEqual(await words((socket) => void socket.once('data', () => socket.destroy())), closed);
      assert.deepEqual(await words((socket) => void socket.once('data', () => socket.end())), closed);
      const nonsense = [null, 'the answer is not HTTP'];
      assert.deepEqual(await words((socket) => void socket.end('220 mail.example.org ESMTP\r\n')), nonsense);
      assert.deepEqual(
        await words((socket) => void socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`)),
        nonsense,
      );
      const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: tea\r\nconnection: upgrade\r\n\r\n';
      assert.deepEqual(await words((socket) => void socket.write(upgrade)), [
        null,
        'the receiver wants to speak another protocol',
      ]);
    });

    test('cannot be reached are noted too', async () => {
      const receiver = await Receiver.start();
      const { url } = receiver;
      await receiver[Symbol.asyncDispose]();
      const [ping] = await (await startTelling(service, { url })).settled(wasTried);
      assert.deepEqual([ping?.attempts[0]?.status, ping?.attempts[0]?.error], [null, 'the connection was refused']);
    });

    test('answer without end are heard for a kilobyte', async () => {
      let sent = 0;
      const pour = (response: ServerResponse): void => {
        response.writeHead(200, { 'content-length': String(10 * 1024 ** 3) });
        const more = (): void => {
          while (!response.destroyed && sent < 10 * 1024 ** 3) {
            sent += 65_536;
            if (!response.write(Buffer.alloc(65_536, 'é'))) return void response.once('drain', more);
          }
        };
        more();
      };
      await using receiver = await Receiver.start(pour);
      const [ping] = await (await startTelling(service, receiver)).settled(isDelivered);
      assert.equal(ping?.attempts[0]?.answer, 'é'.repeat(512));
      assert.ok(sent < 100 * 1024 ** 2, `${sent} bytes were taken`);
    });

    test('say what no text can hold, or break off, are kept as far as it goes', async () => {
      await using receiver = await Receiver.start((response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write(Buffer.from([0x61, 0x00, 0xff, 0x62, 0xc3]), () => response.destroy());
      });
      const [ping] = await (await startTelling(service, receiver)).settled(isDelivered);
      assert.equal(ping?.attempts[0]?.answer, 'a\uFFFD\uFFFDb');
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    webhooks: { retryPolicy: { answerWithin: 3000, firstWait: 50, longestWait: 200 } },
  },
);
