import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectPlain, type AddressInfo, type Socket } from 'node:net';
import { before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { pino } from 'pino';
import { createServer } from '../../../src/server/http/server.ts';
import { basic } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

interface Heard {
  status: number;
  type: string | undefined;
  body: string;
}

/** Says something as it stands, all of it before it listens, and hears the answers to it. */
async function say(socket: Socket, words: readonly (string | Buffer)[], answers = 1): Promise<Heard[]> {
  socket.pause();
  for (const word of words)
    await new Promise<void>((resolve, reject) => {
      socket.write(word, (error) => (error ? reject(error) : resolve()));
    });
  let text = '';
  const heard: Heard[] = [];
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString('latin1');
    for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
      const head = text.slice(0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
      if (text.length < end + 4 + length) break;
      const type = /\r\ncontent-type: (.*)/i.exec(head)?.[1];
      heard.push({ status: Number(head.slice(9, 12)), type, body: text.slice(end + 4, end + 4 + length) });
      text = text.slice(end + 4 + length);
    }
    if (heard.length === answers) break;
  }
  socket.destroy();
  return heard;
}

const json = 'application/json; charset=utf-8';

function refusal(status: number, field: string, code = 'invalid_format'): Heard {
  return { status, type: json, body: JSON.stringify({ error: { [field]: [code] } }) };
}

describeServiceOnOne(
  'on the wire',
  (service) => {
    let alice: User;
    let authorization: string;
    before(async () => {
      alice = await service.user();
      authorization = `authorization: ${basic(alice.credentials)}\r\n`;
    });

    const dial = async (): Promise<Socket> => {
      const { port, hostname: host } = new URL(service.address);
      const socket = connect({ host, port: Number(port), rejectUnauthorized: false });
      await once(socket, 'secureConnect');
      return socket;
    };
    const told = async (...words: (string | Buffer)[]): Promise<Heard | undefined> =>
      (await say(await dial(), words))[0];

    test('a request has to name its host, unless it is of the time before', async () => {
      assert.deepEqual(await told('GET /ping HTTP/1.1\r\n\r\n'), refusal(400, 'host', 'is_blank'));
      assert.deepEqual(await told('GET /ping HTTP/1.1\r\nhost:\r\n\r\n'), refusal(400, 'host', 'is_blank'));
      for (const host of ['a b', 'a/b', 'user@a', 'a:b', '[::1', 'a%zz', '?']) {
        assert.deepEqual(await told(`GET /ping HTTP/1.1\r\nhost: ${host}\r\n\r\n`), refusal(400, 'host'), host);
      }
      assert.deepEqual(await told('GET /ping HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n'), refusal(400, 'host'));
      for (const host of ['x', 'x:1', '[::1]:8443', 'v1.ci.example.org', '127.0.0.1']) {
        assert.equal((await told(`GET /ping HTTP/1.1\r\nhost: ${host}\r\n\r\n`))?.status, 200, host);
      }
      const { id } = await alice.createProject();
      for (let made = 0; made < 2; made += 1)
        await alice.post(`/projects/${id}/build_requests`, { commit_ref: 'main' });
      const old = await told(`GET /projects/${id}/build_requests?limit=1 HTTP/1.0\r\n${authorization}\r\n`);
      assert.equal(old?.status, 200, old?.body);
    });

    test('an expectation that nobody can meet is told so', async () => {
      const expecting = (what: string): string => `GET /ping HTTP/1.1\r\nhost: x\r\nexpect: ${what}\r\n\r\n`;
      assert.deepEqual(await told(expecting('a-miracle')), refusal(417, 'expect'));
      const socket = await dial();
      socket.write(
        `POST /projects HTTP/1.1\r\nhost: x\r\n${authorization}expect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n`,
      );
      const [invitation] = (await once(socket, 'data')) as [Buffer];
      assert.match(invitation.toString(), /^HTTP\/1\.1 100 Continue\r\n\r\n$/);
      assert.equal(
        (await say(socket, ['{}']))[0]?.body,
        '{"error":{"name":["is_blank"],"repository_url":["is_blank"]}}',
      );
    });

    test('a length that is none, a head without end, and what is no HTTP are each told for what they are', async () => {
      const post = (headers: string, body = '{}'): string =>
        `POST /projects HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${body}`;
      for (const length of ['abc', '-1', '1, 2', '2\r\ncontent-length: 3', '99999999999999999999999']) {
        assert.deepEqual(await told(post(`content-length: ${length}`)), refusal(400, 'content_length'), length);
      }
      assert.deepEqual(await told(post('a b: c')), refusal(400, 'header'));
      const both = await told(post('content-length: 2\r\ntransfer-encoding: chunked', '0\r\n\r\n'));
      assert.ok(both?.status === 400 && /content_length|transfer_encoding/.test(both.body), both?.body);
      for (const size of [20_000, 400_000]) {
        assert.deepEqual(await told(post(`x-long: ${'y'.repeat(size)}`)), refusal(431, 'header'), String(size));
        assert.deepEqual(await told(`GET /${'y'.repeat(size)} HTTP/1.1\r\nhost: x\r\n\r\n`), refusal(431, 'header'));
      }
      for (const odd of [
        'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n',
        'BREW /ping HTTP/1.1\r\nhost: x\r\n\r\n',
        'hello\r\n\r\n',
      ]) {
        assert.deepEqual(await told(odd), refusal(400, 'generic', 'api_does_not_exists'), odd);
      }
      const chunks = `POST /projects HTTP/1.1\r\nhost: x\r\n${authorization}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n`;
      assert.deepEqual(await told(chunks), refusal(403, 'generic'));
    });

    test('bytes that are no request, after a valid request, do not take its answer away', async () => {
      const [answer, more] = await say(await dial(), ['GET /ping HTTP/1.1\r\nhost: x\r\n\r\n{"force":true}'], 2);
      assert.deepEqual([answer?.status, answer?.body, more], [200, '{"response":"pong"}', undefined]);
    });

    test('a body that is too long, or that nobody wants, is answered however the caller sends it', async () => {
      const long = Buffer.alloc(6 * 1024 * 1024, 'x');
      const form = 'content-type: application/x-www-form-urlencoded\r\n';
      const sized = `${form}content-length: ${long.length}\r\n`;
      const chunk = Buffer.concat([Buffer.from(`${long.length.toString(16)}\r\n`), long, Buffer.from('\r\n0\r\n\r\n')]);
      for (const version of ['1.1', '1.0', '1.1\r\nconnection: close']) {
        const post = (path: string, headers: string): string =>
          `POST ${path} HTTP/${version}\r\nhost: x\r\n${headers}\r\n`;
        const unreadable = refusal(403, 'generic');
        assert.deepEqual(await told(post('/projects', authorization + sized), long), unreadable);
        assert.deepEqual(await told(post('/projects', sized), long), refusal(401, 'generic', 'unauthorized'));
        assert.deepEqual(await told(post('/none', sized), long), refusal(400, 'generic', 'api_does_not_exists'));
        if (version !== '1.0') {
          const chunked = `${authorization}${form}transfer-encoding: chunked\r\n`;
          assert.deepEqual(await told(post('/projects', chunked), chunk), unreadable);
        }
        const token = await told(post('/oauth2/access_token', sized), long);
        assert.match(token?.body ?? '', /^\{"error":"invalid_request"/);
        assert.equal((await told(post('/ui/sign-in', sized), long))?.status, 400);
      }
    });

    test('a body that stops coming is told so', async () => {
      const begun = `POST /projects HTTP/1.1\r\nhost: x\r\n${authorization}content-type: application/json\r\ncontent-length: 10\r\n\r\n{`;
      assert.deepEqual(await told(begun), refusal(408, 'generic'));
    });
  },
  { connectionTimes: { bodyMs: 1500, bodyBytes: 1 } },
);

describe('a server that is stopping', () => {
  test('says so to who asks on a connection that it still serves', async () => {
    const server = createServer({ endpoints: [], log: pino({ level: 'silent' }), translate: () => undefined });
    const [asked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    server.get('/held', { config: { provenBy: 'none' } }, async (_, reply) => {
      asked.resolve();
      await released.promise;
      return reply.type(json).send('{}');
    });
    server.addHook('preClose', (done) => {
      released.resolve();
      done();
    });
    await server.listen({ host: '127.0.0.1', port: 0 });
    const socket = connectPlain({ host: '127.0.0.1', port: (server.server.address() as AddressInfo).port });
    socket.write('GET /held HTTP/1.1\r\nhost: x\r\n\r\n');
    await asked.promise;
    const closed = server.close();
    const [held, late] = await say(socket, ['GET /ping HTTP/1.1\r\nhost: x\r\n\r\n'], 2);
    assert.equal(held?.status, 200);
    if (late) assert.deepEqual(late, refusal(503, 'generic', 'resource_temporary_unavailable'));
    await closed;
  });
});
