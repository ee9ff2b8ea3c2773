import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type ClientRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { boundedBodies, BrokenBodyError, TooLongError, type BodyLimits } from '../../src/hooks/bodies.ts';
import { assertRefused } from '../support/expect.ts';
import { describeService } from '../support/service.ts';
import { createHmac } from 'node:crypto';
import type { Hook } from './forge.ts';

const megabyte = 1024 * 1024;

describeService('a long payload', (service) => {
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

/** A server that reads bodies within these limits, and says how it went. */
async function reading(limits: Partial<BodyLimits>) {
  const small = { longest: 1000, short: 10, room: 2000, waitMs: 5000, totalMs: 5000 };
  const read = boundedBodies({ ...small, ...limits });
  const outcomes: Promise<string>[] = [];
  const begun: IncomingMessage[] = [];
  const server = createServer((incoming, response) => {
    begun.push(incoming);
    const outcome = read(incoming, BigInt(incoming.headers['x-hook'] as string)).then(
      (body) => `read ${body.length}`,
      (error: unknown) =>
        error instanceof TooLongError ? 'too long' : error instanceof BrokenBodyError ? 'broken' : String(error),
    );
    outcomes.push(outcome);
    void outcome.then((text) => response.end(text));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    /** Sends the beginning of a body. */
    async begin(hook: number, length: number | undefined, bytes: number): Promise<ClientRequest> {
      const size = length === undefined ? {} : { 'content-length': length };
      const headers = { 'x-hook': hook, ...size };
      const client = request({ port, host: '127.0.0.1', method: 'POST', agent: false, headers });
      client.on('error', () => {});
      const arrived = once(server, 'request');
      client.write(Buffer.alloc(bytes));
      await arrived;
      return client;
    },
    outcome: (index: number): Promise<string> => outcomes[index] ?? assert.fail(),
    isWaiting: async (index: number): Promise<boolean> => {
      const waits = Symbol('waits');
      // A turn of the event loop for what is there already to be taken.
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
      return (
        (await Promise.race([outcomes[index], Promise.resolve(waits)])) === waits && (begun[index]?.isPaused() ?? false)
      );
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('room for bodies', () => {
  test('is for so many at a time, and those who come later wait their turn', async () => {
    await using server = await reading({});
    const first = await server.begin(1, 1000, 500);
    const second = await server.begin(2, 1000, 500);
    const third = await server.begin(3, 1000, 500);
    while (!(await server.isWaiting(2)));
    const short = await server.begin(4, 5, 5);
    short.end();
    assert.equal(await server.outcome(3), 'read 5', 'a short one waits for nobody');
    first.end(Buffer.alloc(500));
    assert.equal(await server.outcome(0), 'read 1000');
    third.end(Buffer.alloc(500));
    assert.equal(await server.outcome(2), 'read 1000');
    second.end(Buffer.alloc(500));
    assert.equal(await server.outcome(1), 'read 1000');
  });

  test('is not all for one hook [promise: hook-bounds]', async () => {
    await using server = await reading({});
    await server.begin(1, 1000, 500);
    await server.begin(1, 1000, 500);
    while (!(await server.isWaiting(1)));
    const other = await server.begin(2, 1000, 500);
    other.end(Buffer.alloc(500));
    assert.equal(await server.outcome(2), 'read 1000');
  });

  test('is given back by those who break off, also while they wait for it', async () => {
    await using server = await reading({ room: 1000 });
    const first = await server.begin(1, 1000, 500);
    const second = await server.begin(2, undefined, 500);
    while (!(await server.isWaiting(1)));
    second.destroy();
    assert.equal(await server.outcome(1), 'broken');
    const third = await server.begin(3, 1000, 500);
    first.destroy();
    assert.equal(await server.outcome(0), 'broken');
    third.end(Buffer.alloc(500));
    assert.equal(await server.outcome(2), 'read 1000');
  });

  test('is not held by those who do not get on, nor waited for without end [promise: hook-bounds]', async () => {
    await using server = await reading({ totalMs: 300, waitMs: 100, room: 1000 });
    await server.begin(1, 1000, 500);
    await server.begin(2, 1000, 500);
    assert.match(await server.outcome(1), /resource_temporary_unavailable/);
    assert.equal(await server.outcome(0), 'broken');
    const next = await server.begin(3, 1000, 1000);
    next.end();
    assert.equal(await server.outcome(2), 'read 1000');
  });

  test('is never for more than the longest', async () => {
    await using server = await reading({});
    await server.begin(1, 1001, 1);
    assert.equal(await server.outcome(0), 'too long');
    await server.begin(1, undefined, 1001);
    assert.equal(await server.outcome(1), 'too long');
  });
});
