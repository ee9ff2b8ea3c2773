import assert from 'node:assert/strict';
import { once } from 'node:events';
import https from 'node:https';
import { connect, createServer as createNetServer, type AddressInfo, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { pino } from 'pino';
import { createMetrics } from '../../../src/server/http/metrics.ts';
import { createServer, type ServerOptions } from '../../../src/server/http/server.ts';
import { basic } from '../../support/client.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';
import { longestWait } from '../../support/pauses.ts';

/** Long enough for a slow machine to shake hands, short enough to wait for. */
const times = { handshakeMs: 1500, headMs: 1500, bodyMs: 1500, bodyBytes: 100 };
const limit = { timeout: longestWait };

/** A connection, and when the other side has closed it. */
async function opened(socket: Socket, event: 'connect' | 'secureConnect'): Promise<Socket> {
  socket.on('error', () => {});
  await new Promise<void>((resolve) => socket.once(event, resolve).once('close', resolve));
  return socket;
}

const portOf = (service: Service): number => Number(new URL(service.address).port);
const bare = (service: Service): Promise<Socket> =>
  opened(connect({ host: '127.0.0.1', port: portOf(service) }), 'connect');
const secure = (service: Service): Promise<Socket> =>
  opened(connectTls({ host: '127.0.0.1', port: portOf(service), rejectUnauthorized: false }), 'secureConnect');

async function closed(socket: Socket): Promise<void> {
  socket.resume();
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

/** Writes a piece now and then for as long as the other side listens. */
async function trickle(socket: Socket, piece: string, everyMs: number): Promise<void> {
  const writing = setInterval(() => socket.writable && socket.write(piece), everyMs);
  await closed(socket);
  clearInterval(writing);
}

async function count(service: Service, name: string, reason?: string): Promise<number> {
  const { text } = await service.api.get('/metrics');
  const label = reason === undefined ? '' : `\\{reason="${reason}"\\}`;
  return Number(new RegExp(`^${name}${label} (\\d+)$`, 'm').exec(text)?.[1]);
}

describeServiceOnOne(
  'a connection',
  (service) => {
    test('ends where nobody shakes hands, asks anything, or gets to the end of a head or a body', limit, async () => {
      const silent = await bare(service);
      const slow = await bare(service);
      const mute = await secure(service);
      const head = await secure(service);
      head.write('GET /ping HTTP/1.1\r\n');
      const alice = await service.user();
      const post = (path: string, more = ''): string =>
        `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\nauthorization: ${basic(alice.credentials)}\r\n${more}\r\n`;
      const form = await secure(service);
      form.write(post('/projects', 'content-type: application/x-www-form-urlencoded\r\n'));
      const dependency = await alice.createDependency();
      const archive = await secure(service);
      archive.write(post(`/dependencies/${dependency.id}/archive`));
      // Refused before its body was looked at: the rest of it is not waited for either.
      const stranger = await secure(service);
      stranger.write(post('/projects').replace(/authorization: .*\r\n/, ''));
      const again = await secure(service);
      again.write('GET /ping HTTP/1.1\r\nhost: x\r\n\r\n');
      await once(again, 'data');
      await Promise.all([
        closed(silent),
        trickle(slow, '\x16', 300),
        closed(mute),
        trickle(head, 'x', 300),
        ...[form, archive, stranger].map((socket) => trickle(socket, 'x', 300)),
        trickle(again, 'G', 300),
      ]);
      const ended = (why: string): Promise<number> => count(service, 'headrace_connections_ended_total', why);
      assert.ok((await ended('handshake')) >= 1);
      assert.ok((await ended('head')) >= 2);
      assert.ok((await ended('body')) >= 3);
      assert.equal((await alice.get('/whoami')).status, 200);
    });

    test('lasts while something happens on it, or while it is we who take our time', limit, async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const stream = await service.api.open(`/projects/${project.id}/firehose`, { as: alice.credentials });
      const dependency = await alice.createDependency();
      const begun = service.api.begin(`/dependencies/${dependency.id}/archive`, { as: alice.credentials });
      const [upload, answered] = begun;
      // Longer than any of the times, and never fast.
      for (let sent = 0; sent < 16; sent += 1) {
        upload.write('x'.repeat(200));
        await pause(300);
      }
      upload.end();
      assert.equal((await answered).text, '{"error":{"archive":["invalid_format"]}}', 'it was read to its end');
      await alice.requestBuild(project);
      for await (const chunk of stream) if (String(chunk).includes('build_request')) break;
    });
  },
  { connectionTimes: times },
);

describeServiceOnOne(
  'a server with a crowd before its door',
  (service, database) => {
    test(
      'lets those in who ask, though many more than there is room for just sit there [promise: connections]',
      limit,
      async () => {
        const alice = await service.user();
        const sitting: Socket[] = [];
        database.afterwards(() => sitting.forEach((socket) => socket.destroy()));
        for (let round = 0; round < 10; round += 1) {
          sitting.push(...(await Promise.all(Array.from({ length: 20 }, () => bare(service)))));
          sitting.push(...(await Promise.all(Array.from({ length: 10 }, () => secure(service)))));
          // Each on a connection of its own.
          const headers = { authorization: basic(alice.credentials) };
          const answer = https.get(`${service.address}/whoami`, { rejectUnauthorized: false, agent: false, headers });
          const [response] = (await once(answer, 'response')) as [{ statusCode: number; resume(): void }];
          response.resume();
          assert.equal(response.statusCode, 200);
        }
        assert.ok((await count(service, 'headrace_connections')) <= 32);
        assert.ok((await count(service, 'headrace_connections_ended_total', 'room')) >= 300 - 32);
        for (const socket of sitting) socket.destroy();
      },
    );

    test('refuses whom it has no room for, and never those who are at something', limit, async () => {
      const alice = await service.user();
      const project = await alice.createProject();
      const path = `/projects/${project.id}/firehose`;
      const head = `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: ${basic(alice.credentials)}\r\n\r\n`;
      const listening: Socket[] = [];
      let heard = 0;
      database.afterwards(() => listening.forEach((socket) => socket.destroy()));
      for (let number = 0; number < 32; number += 1) {
        const socket = await secure(service);
        socket.write(head);
        await once(socket, 'data');
        socket.on('data', (chunk: Buffer) => (heard += /build_request/.test(chunk.toString()) ? 1 : 0));
        listening.push(socket);
      }
      // Those of the client that speaks for everybody else made room: it waited between two requests.
      for (let tries = 0; tries < 5; tries += 1) await closed(await bare(service));
      assert.ok(listening.every((socket) => !socket.destroyed));
      listening.pop()?.destroy();
      // There is room again as soon as the server has heard of it.
      while ((await service.api.get('/ping').catch(() => undefined))?.status !== 200) await pause(20);
      assert.ok((await count(service, 'headrace_connections_refused_total', 'full')) >= 5);
      await alice.requestBuild(project);
      while (heard < listening.length) await pause(20);
      for (const socket of listening) socket.destroy();
    });
  },
  { settings: { connections: '32' } },
);

describe('connections to a server', () => {
  const closing: (() => Promise<void> | void)[] = [];
  after(async () => {
    for (const close of closing.reverse()) await close();
  });
  const start = async (limits: { most: number; mostOfOne: number }) => {
    const metrics = createMetrics();
    const options: ServerOptions = {
      endpoints: [],
      log: pino({ level: 'silent' }),
      translate: () => undefined,
      connections: { limits, watcher: metrics.connections },
    };
    const server = createServer(options);
    const holding: (() => void)[] = [];
    server.get('/held', { config: { provenBy: 'none' } }, async (_, reply) => {
      await new Promise<void>((resolve) => holding.push(resolve));
      return reply.send('done');
    });
    await server.listen({ host: '127.0.0.1', port: 0 });
    closing.push(() => server.close());
    /** Brings connections from elsewhere: what they say of where they come from is what the client says first. */
    const entrance = createNetServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => {
      Object.defineProperty(socket, 'remoteAddress', { value: addresses.shift() });
      server.server.emit('connection', socket);
      socket.resume();
    });
    const addresses: string[] = [];
    await once(entrance.listen(0, '127.0.0.1'), 'listening');
    closing.push(() => void entrance.close());
    const from = (address: string): Promise<Socket> => {
      addresses.push(address);
      return opened(connect({ host: '127.0.0.1', port: (entrance.address() as AddressInfo).port }), 'connect');
    };
    const direct = (): Promise<Socket> =>
      opened(connect({ host: '127.0.0.1', port: (server.server.address() as AddressInfo).port }), 'connect');
    const hold = async (socket: Socket): Promise<Socket> => {
      const held = holding.length;
      socket.write('GET /held HTTP/1.1\r\nhost: x\r\n\r\n');
      while (holding.length === held && !socket.closed) await pause(5);
      return socket;
    };
    closing.push(() => holding.forEach((done) => done()));
    return {
      from,
      direct,
      hold,
      refused: async (why: string) => refusedIn(await metrics.text({ connections: 0 }), why),
    };
  };
  const refusedIn = (text: string, why: string): number =>
    Number(new RegExp(`^headrace_connections_refused_total\\{reason="${why}"\\} (\\d+)$`, 'm').exec(text)?.[1]);

  test('from one network have a part of the room, and those of this machine all of it', limit, async () => {
    const { from, hold, refused } = await start({ most: 12, mostOfOne: 3 });
    const theirs = ['2001:db8:1:2::1', '2001:db8:1:2:ffff::2', '2001:db8:1:2:3:4:5:6'];
    const first = [];
    for (const address of theirs) first.push(await hold(await from(address)));
    for (const address of [...theirs, '2001:DB8:1:2::9']) await closed(await from(address));
    assert.equal(await refused('network'), 4);
    const neighbour = await hold(await from('2001:db8:1:3::1'));
    const mapped = [];
    for (let one = 0; one < 3; one += 1) mapped.push(await hold(await from('::ffff:192.0.2.7')));
    await closed(await from('192.0.2.7'));
    // A proxy on this machine speaks for many.
    const proxied = [];
    for (const address of ['127.0.0.1', '::1', '127.0.0.1', '::ffff:127.0.0.1', '127.0.0.1']) {
      proxied.push(await hold(await from(address)));
    }
    assert.ok([...first, neighbour, ...mapped, ...proxied].every((socket) => !socket.closed));
    assert.deepEqual([await refused('network'), await refused('full')], [5, 0]);
    // One that has asked nothing yet makes room for its own.
    first[0]?.destroy();
    const silent = await from('2001:db8:1:2::1');
    const last = await hold(await from('2001:db8:1:2::1'));
    await closed(silent);
    assert.ok(!last.closed);
  });

  test('are told that there is no room where that can be said without a handshake', limit, async () => {
    const { direct, hold, refused } = await start({ most: 2, mostOfOne: 2 });
    const held = [await hold(await direct()), await hold(await direct())];
    const socket = await direct();
    socket.setEncoding('utf8');
    socket.write('GET /held HTTP/1.1\r\nhost: x\r\n\r\n');
    let said = '';
    socket.on('data', (text: string) => (said += text));
    await closed(socket);
    assert.match(said, /^HTTP\/1\.1 503 .*\r\nretry-after: 1\r\n.*\{"error":\{"generic":\[\]\}\}$/s);
    assert.equal(await refused('full'), 1);
    assert.ok(held.every((one) => !one.closed));
  });
});
