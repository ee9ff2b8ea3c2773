import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { createResolve } from '../../../src/shared/lib/resolve.ts';

const patient = new AbortController().signal;
const typeA = 1;

/** A name server that knows one IPv4 address for every name, or says nothing at all. */
async function nameServer(t: TestContext, address?: string): Promise<{ at: string; asked: () => number }> {
  const server: Socket = createSocket('udp4');
  let questions = 0;
  server.on('message', (query, from) => {
    questions += 1;
    if (address !== undefined) server.send(answerTo(query, address), from.port, from.address);
  });
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { at: `127.0.0.1:${server.address().port}`, asked: () => questions };
}

function answerTo(query: Buffer, address: string): Buffer {
  const questionEnd = query.indexOf(0, 12) + 5;
  const isA = query.readUInt16BE(questionEnd - 4) === typeA;
  const head = Buffer.from(query.subarray(0, 12));
  head.writeUInt16BE(0x8180, 2); // an answer, without error
  head.writeUInt16BE(isA ? 1 : 0, 6);
  head.fill(0, 8, 12);
  const record = [0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)];
  return Buffer.concat([head, query.subarray(12, questionEnd), Buffer.from(isA ? record : [])]);
}

describe('a host', () => {
  test('that is an address is that address', async () => {
    const resolve = createResolve(['127.0.0.1:1']);
    assert.deepEqual(await resolve('192.0.2.7', patient), [{ address: '192.0.2.7', family: 4 }]);
    assert.deepEqual(await resolve('2001:db8::7', patient), [{ address: '2001:db8::7', family: 6 }]);
  });

  test('is looked up at the name servers, anew each time', async (t) => {
    const server = await nameServer(t, '203.0.113.9');
    const resolve = createResolve([server.at]);
    assert.deepEqual(await resolve('hooks.example.org', patient), [{ address: '203.0.113.9', family: 4 }]);
    const asked = server.asked();
    await resolve('hooks.example.org', patient);
    assert.ok(server.asked() > asked);
  });

  test('that only this machine knows is found', async () => {
    const found = await createResolve(['127.0.0.1:1'])('localhost', patient);
    assert.ok(found.some(({ address }) => address === '127.0.0.1' || address === '::1'));
  });

  test('whose name servers are silent keeps neither threads nor whoever gives up busy', async (t) => {
    const server = await nameServer(t);
    const resolve = createResolve([server.at]);
    const leaving = new AbortController();
    const many = Array.from({ length: 50 }, (_, at) => resolve(`host${at}.example.org`, leaving.signal));
    const failures = Promise.allSettled(many);
    while (server.asked() < 100) await new Promise((done) => setTimeout(done, 10));
    // The system's resolver needs a thread, and gets one.
    assert.notEqual((await resolve('localhost', patient)).length, 0);
    leaving.abort(new Error('enough'));
    for (const result of await failures) assert.equal(result.status, 'rejected');
  });
});
