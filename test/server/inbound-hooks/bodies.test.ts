import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type ClientRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import {
  boundedBodies,
  BrokenBodyError,
  TooLongError,
  usualLimits,
  type BodyLimits,
} from '../../../src/server/inbound-hooks/bodies.ts';
import { longestTurn } from '../../support/event-loop.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { createHmac } from 'node:crypto';
import type { Hook } from './forge.ts';

const megabyte = 1024 * 1024;

describeServiceOnOne('a long payload', (service) => {
  const makeHook = async (): Promise<Hook> => {
    const owner = await service.user();
    const project = await owner.createProject();
    return (await owner.post(`/projects/${project.id}/hooks`, { provider: 'github' })).record as Hook;
  };
  const headers = { 'content-type': 'application/json', 'x-github-event': 'ping', 'x-hub-signature-256': 'sha256=00' };

  test('is taken up to 25 MB, and refused at once beyond that [promise: hook-bounds]', async () => {
    const hook = await makeHook();
    const body = Buffer.alloc(25 * megabyte, ' ');
    body.write('{"zen":"x"}');
    const signature = `sha256=${createHmac('sha256', hook.secret).update(body).digest('hex')}`;
    const path = `/hooks/${hook.id}`;
    const taken = await service.api.post(path, { headers: { ...headers, 'x-hub-signature-256': signature }, body });
    assert.deepEqual([taken.status, taken.record['outcome']], [202, 'ignored']);

    // By what it says of itself: nothing of the body has to be sent.
    const length = { ...headers, 'content-length': String(25 * megabyte + 1) };
    const [declared, refused] = service.api.begin(path, { headers: length });
    declared.flushHeaders();
    assertRefused(await refused, 413, { generic: ['invalid_format'] });
    declared.destroy();

    // And by what comes, where it says nothing.
    const [streamed, answer] = service.api.begin(path, { headers });
    const piece = Buffer.alloc(megabyte, ' ');
    for (let sent = 0; sent <= 25; sent += 1) streamed.write(piece);
    assertRefused(await answer, 413, { generic: ['invalid_format'] });
    streamed.destroy();
  });

  test('that takes long to read holds up nobody, proven or not [promise: hook-bounds]', async () => {
    const hook = await makeHook();
    const many = Buffer.from(`{"zen":[${'{},'.repeat(900_000)}0]}`);
    const signature = `sha256=${createHmac('sha256', hook.secret).update(many).digest('hex')}`;
    const form = Buffer.alloc(2 * megabyte, 'a&');
    const calls = [
      { headers: { ...headers, 'x-hub-signature-256': signature }, body: many, status: 202 },
      {
        headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded', 'x-hub-signature-256': signature },
        body: form,
        status: 401,
      },
    ];
    for (const { status, ...sent } of calls) {
      const { result, longestMs } = await longestTurn(() => service.api.post(`/hooks/${hook.id}`, sent));
      assert.equal(result.status, status, result.text);
      assert.ok(longestMs < 50, `${longestMs}`);
    }
  });

  test('costs nothing without a proof: it is answered before it is sent', async () => {
    const hook = await makeHook();
    const { 'x-hub-signature-256': _, ...bare } = headers;
    const [begun, answer] = service.api.begin(`/hooks/${hook.id}`, {
      headers: { ...bare, 'content-length': '20000000' },
    });
    begun.flushHeaders();
    assertRefused(await answer, 401, { generic: ['unauthorized'] });
    begun.destroy();
  });
});

/** A clock that a test can set forward, and how often it was looked at. */
function settableClock() {
  const clock = { looks: 0, ahead: 0, now: (): number => ((clock.looks += 1), performance.now() + clock.ahead) };
  return clock;
}

const clock = settableClock();
const room = 30 * megabyte;

describeServiceOnOne(
  'a delivery',
  (service) => {
    test('is taken however many slow bodies strangers hold open for hooks of others [promise: hook-bounds]', async () => {
      const hooks: Hook[] = [];
      for (let count = 0; count < 4; count += 1) {
        const owner = await service.user();
        const project = await owner.createProject();
        hooks.push((await owner.post(`/projects/${project.id}/hooks`, { provider: 'github' })).record as Hook);
      }
      const [target, ...others] = hooks;
      if (!target) assert.fail();
      const headers = { 'content-type': 'application/json', 'x-github-event': 'ping' };
      const unproven = { ...headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
      // They announce all that may be sent, and then send as much as there is room for.
      const looks = clock.looks;
      const slow = Array.from({ length: 24 }, (_, at) => {
        const path = `/hooks/${others[at % others.length]?.id}`;
        const all = { ...unproven, 'content-length': String(25 * megabyte), connection: 'close' };
        const [request, answer] = service.api.begin(path, { headers: all });
        request.write(Buffer.alloc(1.2 * megabyte, ' '));
        return { request, answer };
      });
      while (clock.looks < looks + slow.length) await new Promise((resolve) => void setTimeout(resolve, 10));
      clock.ahead += 20_000;

      for (const size of [megabyte, 25 * megabyte]) {
        const body = Buffer.alloc(size, ' ');
        body.write('{"zen":"x"}');
        const proof = `sha256=${createHmac('sha256', target.secret).update(body).digest('hex')}`;
        const delivery = { headers: { ...headers, 'x-hub-signature-256': proof }, body };
        const taken = await service.api.post(`/hooks/${target.id}`, delivery);
        assert.deepEqual([taken.status, taken.record?.['outcome']], [202, 'ignored'], `${size} bytes`);
      }
      for (const { request } of slow) request.destroy();
    });
  },
  { hookBodies: { limits: { ...usualLimits, room, share: 27 * megabyte }, now: clock.now } },
);

const kilobyte = 1024;

/** A server that reads bodies within these limits, and says how it went. */
async function reading(limits: Partial<BodyLimits>) {
  const small = { longest: 100 * kilobyte, room: 200 * kilobyte, share: 150 * kilobyte };
  const time = settableClock();
  const read = boundedBodies({ ...small, graceMs: 10_000, totalMs: 60_000, ...limits }, time.now);
  const outcomes: Promise<string>[] = [];
  const arrived: number[] = [];
  const server = createServer((incoming, response) => {
    const index = arrived.push(0) - 1;
    incoming.on('data', (piece: Buffer) => (arrived[index] = (arrived[index] ?? 0) + piece.length));
    const sharers = String(incoming.headers['x-sharers']).split(' ');
    const outcome = read(incoming, sharers).then(
      (body) => `read ${body.length / kilobyte}`,
      (error: unknown) =>
        error instanceof TooLongError ? 'too long' : error instanceof BrokenBodyError ? 'broken' : String(error),
    );
    outcomes.push(outcome);
    void outcome.then((text) => response.end(text));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    /** Sends the beginning of a body, and waits until it has arrived. */
    async begin(sharers: string, length: number | undefined, kilobytes: number): Promise<ClientRequest> {
      const size = length === undefined ? {} : { 'content-length': length * kilobyte };
      const headers = { 'x-sharers': sharers, ...size };
      const client = request({ port, host: '127.0.0.1', method: 'POST', agent: false, headers });
      client.on('error', () => {});
      const coming = once(server, 'request');
      client.write(Buffer.alloc(kilobytes * kilobyte));
      const [incoming] = (await coming) as [IncomingMessage];
      const index = arrived.length - 1;
      while ((arrived[index] ?? 0) < kilobytes * kilobyte && !incoming.destroyed)
        await new Promise((resolve) => void setImmediate(resolve));
      return client;
    },
    pass: (ms: number): void => void (time.ahead += ms),
    outcome: (index: number): Promise<string> => outcomes[index] ?? assert.fail(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const rest = (kilobytes: number): Buffer => Buffer.alloc(kilobytes * kilobyte);

describe('room for bodies', () => {
  test('is made by ending those that come slowest, whoever sends them [promise: hook-bounds]', async () => {
    await using server = await reading({});
    await server.begin('one', 100, 60);
    server.pass(30_000);
    await server.begin('two', 100, 60);
    server.pass(20_000);
    const third = await server.begin('three', 100, 50);
    server.pass(15_000);
    const fast = await server.begin('four', 100, 50);
    assert.equal(await server.outcome(0), 'broken');
    fast.end(rest(50));
    assert.equal(await server.outcome(3), 'read 100');
    assert.equal(await server.outcome(1), 'broken');
    third.end(rest(50));
    assert.equal(await server.outcome(2), 'read 100');
  });

  test('counts what has arrived and not what is announced [promise: hook-bounds]', async () => {
    await using server = await reading({});
    for (let count = 0; count < 20; count += 1) await server.begin(`one ${count}`, 100, 5);
    const other = await server.begin('two', 60, 30);
    other.end(rest(30));
    assert.equal(await server.outcome(20), 'read 60');
  });

  test('is not all for one network, nor for the hooks of one account [promise: hook-bounds]', async () => {
    await using server = await reading({});
    await server.begin('network account1', 100, 70);
    const other = await server.begin('network account2', 100, 60);
    const elsewhere = await server.begin('elsewhere account1', 100, 15);
    server.pass(20_000);
    await server.begin('network account3', 100, 25);
    const ended = await Promise.race([server.outcome(0), server.outcome(1), server.outcome(2)]);
    assert.equal(ended, 'broken');
    elsewhere.end(rest(85));
    assert.equal(await server.outcome(2), 'read 100', 'the slowest of all, but not of the network that has too much');
    other.destroy();
  });

  test('is not taken from those that have only begun: then there is none for one more', async () => {
    await using server = await reading({});
    const first = await server.begin('one', 100, 90);
    const second = await server.begin('two', 100, 90);
    await server.begin('three', 100, 60);
    assert.match(await server.outcome(2), /resource_temporary_unavailable/);
    first.end(rest(10));
    second.end(rest(10));
    assert.equal(await server.outcome(0), 'read 100');
    assert.equal(await server.outcome(1), 'read 100');
  });

  test('is given back by those who break off, and by those who do not get on', async () => {
    // Long enough for those that get on, also on a busy machine: this time is no clock of the test.
    await using server = await reading({ totalMs: 3000 });
    const first = await server.begin('one', 100, 90);
    first.destroy();
    assert.equal(await server.outcome(0), 'broken');
    await server.begin('two', undefined, 90);
    assert.equal(await server.outcome(1), 'broken');
    const [third, fourth] = [await server.begin('three', 90, 80), await server.begin('four', 90, 80)];
    third.end(rest(10));
    fourth.end(rest(10));
    assert.deepEqual([await server.outcome(2), await server.outcome(3)], ['read 90', 'read 90']);
  });

  test('is not got by cutting a body into very many pieces [promise: hook-bounds]', async () => {
    await using server = await reading({});
    const client = await server.begin('one', undefined, 0);
    for (let sent = 0; sent < 2000; sent += 1) client.write('x');
    assert.match(await server.outcome(0), /resource_temporary_unavailable/);
  });

  test('is never for more than the longest', async () => {
    await using server = await reading({});
    await server.begin('one', 101, 1);
    assert.equal(await server.outcome(0), 'too long');
    await server.begin('one', undefined, 101);
    assert.equal(await server.outcome(1), 'too long');
  });
});
