import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import test, { type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { bytes } from '../../../src/shared/domain/bounds.ts';
import { ShellStream } from '../../../src/shared/domain/shell-stream.ts';
import { PacketRelay } from '../../support/packet-relay.ts';
import { ShellEnd } from '../../support/shell-ends.ts';

async function ends(t: TestContext) {
  const relay = await PacketRelay.start();
  const [client, runner] = [
    new ShellEnd(() => relay.socket('client')),
    new ShellEnd(() => relay.socket('runner')),
  ] as const;
  t.after(async () => {
    client.end();
    runner.end();
    await relay[Symbol.asyncDispose]();
  });
  return { relay, client, runner };
}

test('bytes arrive once and in order, where packets are lost and connections break', async (t) => {
  const { relay, client, runner } = await ends(t);
  let count = 0;
  relay.loses = (_, from) => {
    count += 1;
    if (count % 300 === 0) relay.break(count % 600 === 0 ? 'client' : 'runner');
    return count % 97 === 0 && from === 'client';
  };
  const typed = Array.from({ length: 300 }, (_, at) => `d ${at}`);
  const said = Array.from({ length: 300 }, (_, at) => `d said ${at}`);
  const sending = [
    Promise.all(typed.map((frame) => client.send('d', frame.slice(2)))),
    Promise.all(said.map((frame) => runner.send('d', frame.slice(2)))),
  ];
  const all = async (end: ShellEnd): Promise<string[]> => {
    const frames: string[] = [];
    while (frames.length < typed.length) frames.push(await end.next());
    return frames;
  };
  assert.deepEqual(await Promise.all([all(runner), all(client)]), [typed, said]);
  await Promise.all(sending);
  assert.ok(client.connections > 1 && runner.connections > 1);
});

test('what is pasted goes in packets that a server takes', async (t) => {
  const { relay, client, runner } = await ends(t);
  let largest = 0;
  relay.loses = (packet) => {
    largest = Math.max(largest, packet.length);
    return false;
  };
  const pasted = 'x'.repeat(2_000_000);
  void client.send('d', pasted);
  assert.ok((await runner.text(pasted.length)) === pasted);
  assert.equal(largest, bytes.shellPacket);
});

test('whoever is far ahead of the other end waits, until it reads or the shell is over', async (t) => {
  const { client, runner } = await ends(t);
  let isThrough = false;
  const sending = client.stream.send('d', 'x'.repeat(1_000_000)).then(() => (isThrough = true));
  assert.equal((await runner.next()).slice(0, 2), 'd '); // of what is on its way, the rest waits at the reader
  const second = client.stream.send('d', 'y');
  assert.equal(isThrough, false);
  client.end();
  await Promise.all([sending, second]);
});

test('a packet that is none, or for another place, changes nothing', async (t) => {
  const { relay, client, runner } = await ends(t);
  const first = client.send('d', 'first');
  assert.equal(await runner.next(), 'd first');
  await first;
  const wild = relay.socket('client');
  await once(wild, 'open');
  const packet = (needed: number, number: number): Buffer => {
    const head = Buffer.alloc(10, 'd');
    head[0] = 0;
    head.writeUInt32BE(needed, 1);
    head.writeUInt32BE(number, 5);
    return Buffer.concat([head, Buffer.from('wild')]);
  };
  for (const [needed, number] of [
    [0, 0],
    [1000, 1000],
    [2 ** 32 - 1, 2 ** 32 - 1],
  ] as const)
    wild.send(packet(needed, number));
  wild.send(Buffer.alloc(3));
  client.break();
  const second = client.send('d', 'second');
  assert.equal(await runner.next(), 'd second');
  await second;
  wild.terminate();
});

test('the words of a server that ends it are shown, with a status', async (t) => {
  const { relay, client, runner } = await ends(t);
  const first = client.send('d', 'first');
  assert.equal(await runner.next(), 'd first');
  await first;
  relay.over('client', 'The build is gone.');
  assert.deepEqual(
    [await client.next(), await client.next(), await client.next()],
    ['m The build is gone.', 'x 3', 'over'],
  );
  assert.equal(client.connections, 1);
});

test('an end that was begun anew ends the other one, which cannot go on with it', async (t) => {
  const { relay, client, runner } = await ends(t);
  const first = client.send('d', 'first');
  assert.equal(await runner.next(), 'd first');
  await first;
  runner.end();
  const other = new ShellEnd(() => relay.socket('runner'));
  t.after(() => other.end());
  assert.equal(await client.next(), 'm The other end of the shell was restarted.');
});

test('a refusal ends it at once', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 401 Unauthorized\r\n\r\n'));
  const stream = new ShellStream({
    open: (refuse) =>
      new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`).once('unexpected-response', () =>
        refuse(new Error('no')),
      ),
  });
  await assert.rejects(stream.frames().next(), /^Error: no$/);
  await stream.send('d', Buffer.alloc(1_000_000));
});
