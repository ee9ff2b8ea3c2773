import type { OnReadOpts } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type ConnectionOptions } from 'node:tls';

/**
 * A process of clients who follow one stream over connections of their own, and look for moments that are written in it
 * as `@nanoseconds@`. Says when all are there, listens for a while, and says how late, in milliseconds, each moment
 * of that while arrived at each of them. What arrives is only put aside until the while is over: what is measured is the
 * server, not how fast one process can read for hundreds.
 */
const [, , address = '', authorization = '', many = '1', seconds = '1'] = process.argv;
const { hostname, port, pathname } = new URL(address);
const head = `GET ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${authorization}\r\n\r\n`;
const arrivals: { at: number; bytes: Buffer }[] = [];
const buffer = Buffer.alloc(64 * 1024);

const clock = (): number => performance.timeOrigin + performance.now();

async function follow(): Promise<void> {
  const heard = Promise.withResolvers<void>();
  // Taken as well as by an unencrypted connection, though the types do not say so.
  const onread: OnReadOpts = {
    buffer,
    callback(length) {
      arrivals.push({ at: clock(), bytes: Buffer.from(buffer.subarray(0, length)) });
      heard.resolve();
      return true;
    },
  };
  const options: ConnectionOptions & { onread: OnReadOpts } = {
    host: hostname,
    port: Number(port),
    rejectUnauthorized: false,
    onread,
  };
  const socket = connect(options);
  socket.on('secureConnect', () => socket.write(head));
  await heard.promise;
}

for (let there = 0; there < Number(many); there += 25) {
  // A few at a time: handshakes are not what is measured.
  await Promise.all(Array.from({ length: Math.min(25, Number(many) - there) }, follow));
}
console.log('listening on all connections');
await pause(1000); // what they were told to begin with is out of the way
const since = clock();
await pause(Number(seconds) * 1000);
const delays: number[] = [];
for (const { at, bytes } of arrivals) {
  for (const [, nanoseconds] of bytes.toString('latin1').matchAll(/@(\d+)@/g)) {
    const moment = Number(nanoseconds) / 1e6;
    if (moment > since) delays.push(at - moment);
  }
}
process.stdout.write(JSON.stringify(delays), () => process.exit(0));
