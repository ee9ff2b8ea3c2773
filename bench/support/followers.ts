import type { OnReadOpts } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type ConnectionOptions } from 'node:tls';

/**
 * A process of clients that follow one stream, each over its own connection. The stream contains times of writing as
 * `@nanoseconds@`. The process prints a line when all are connected, and listens for a while. Then it prints the delay
 * in milliseconds of each such time at each client. Until then it only stores the bytes, because the server is
 * measured, and not the speed at which one process can read for hundreds.
 */
const [, , address = '', authorization = '', many = '1', seconds = '1'] = process.argv;
const { hostname, port, pathname } = new URL(address);
const head = `GET ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${authorization}\r\n\r\n`;
const arrivals: { at: number; bytes: Buffer }[] = [];
const buffer = Buffer.alloc(64 * 1024);

const clock = (): number => performance.timeOrigin + performance.now();

async function follow(): Promise<void> {
  const heard = Promise.withResolvers<void>();
  // A TLS connection accepts this too, although the types lack it.
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
  // A few at a time, because handshakes are not measured.
  await Promise.all(Array.from({ length: Math.min(25, Number(many) - there) }, follow));
}
console.log('listening on all connections');
await pause(1000); // the events before the measurement have arrived by then
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
