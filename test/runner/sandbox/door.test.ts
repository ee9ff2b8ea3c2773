import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import test, { type TestContext } from 'node:test';
import { lacks } from '../../support/machine.ts';
import { open } from './support.ts';

const skip = lacks('isolation', 'tun');

/** Sends everything back. `most` is how many connections it had at once. */
async function echo(t: TestContext): Promise<{ port: number; server: Server; most: () => number }> {
  let [now, most] = [0, 0];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    most = Math.max(most, (now += 1));
    socket.on('close', () => (now -= 1));
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  return { port: (server.address() as { port: number }).port, server, most: () => most };
}

const perl = (program: string): string => `perl -MIO::Socket::INET -e '${program}'`;
const reaches = (address: string, port: number): string =>
  perl(`print IO::Socket::INET->new(PeerAddr => "${address}:${port}", Timeout => 5) ? "open " : "closed "`);

test('a door leads from a run to one port outside, and to no other [promise: build-door]', { skip }, async (t) => {
  const [server, other] = [await echo(t), await echo(t)];
  const { sh } = await open(t, { network: 'internet' });
  const to = { host: '127.0.0.1', port: server.port };
  const twelveMegabytes = perl(
    [
      '$s = IO::Socket::INET->new(PeerAddr => $ARGV[0]) or die; binmode $s;',
      'if (!fork) { print $s chr($_ % 251) x 4096 for 1 .. 3000; shutdown $s, 1; exit }',
      '$n = 0; while (sysread $s, $b, 65536) { $n += length $b } print "$n "',
    ].join(' '),
  );
  for (const address of ['127.0.0.1', '127.72.0.1', '192.168.77.5', '20.1.2.3']) {
    const { text, exitStatus } = await sh(
      [
        `${twelveMegabytes} ${address}:8443`,
        reaches(address, 8444),
        reaches(address === '127.0.0.1' ? '127.0.0.2' : '127.0.0.1', 8443),
        reaches('10.0.2.2', server.port),
        reaches('127.0.0.1', other.port),
        reaches('192.168.77.6', 8443),
      ].join('; '),
      { door: { address, port: 8443, to } },
    );
    assert.equal(text, '12288000 closed closed closed closed closed ', address);
    assert.equal(exitStatus, 0);
  }
  assert.equal(other.most(), 0);
  // The next run has none.
  assert.equal((await sh(reaches('127.0.0.1', 8443))).text, 'closed ');
  // Where a run reaches nothing, it does not reach the server either.
  const closed = await open(t, { network: 'none' });
  const door = { address: '127.0.0.1', port: 8443, to };
  assert.equal((await closed.sh(reaches('127.0.0.1', 8443), { door })).text, 'closed ');
});

test('a run cannot hold more than 64 connections, and none outlives it [promise: build-door]', { skip }, async (t) => {
  const server = await echo(t);
  const { sh } = await open(t, { network: 'internet' });
  const door = { address: '127.0.0.1', port: 8443, to: { host: '127.0.0.1', port: server.port } };
  const greedy = perl(
    [
      'for (1 .. 100) { push @all, IO::Socket::INET->new(PeerAddr => "127.0.0.1:8443", Timeout => 5) }',
      // The first of them works, whatever the others wait for.
      'print {$all[0]} "hello\\n"; $all[0]->flush; print scalar readline $all[0];',
      // A reader that never reads is not waited for by others.
      'print {$all[1]} "x" x 1000 for 1 .. 100; print {$all[2]} "again\\n"; $all[2]->flush; print scalar readline $all[2];',
    ].join(' '),
  );
  assert.equal((await sh(greedy, { door })).text, 'hello\nagain\n');
  assert.ok(server.most() <= 64, `${server.most()} at once`);
  server.server.close();
  await once(server.server, 'close'); // when no connection is left
});
