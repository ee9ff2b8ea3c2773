import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';

/**
 * A process of clients who follow one stream over connections of their own, and look for moments that are written in it
 * as `@nanoseconds@`. Says when all are there, listens for a while, and says how late, in milliseconds, all but
 * the latest twentieth of the moments of that while arrived at them.
 */
const [, , address = '', authorization = '', many = '1', seconds = '1'] = process.argv;
const { hostname, port, pathname } = new URL(address);
const head = `GET ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${authorization}\r\n\r\n`;
const delays: number[] = [];
let since = Number.POSITIVE_INFINITY;

const clock = (): number => performance.timeOrigin + performance.now();

async function follow(): Promise<void> {
  const socket: TLSSocket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
  socket.setEncoding('latin1');
  socket.on('secureConnect', () => socket.write(head));
  socket.on('data', (text: string) => {
    const now = clock();
    for (const [, nanoseconds] of text.matchAll(/@(\d+)@/g)) {
      const moment = Number(nanoseconds) / 1e6;
      if (moment > since) delays.push(now - moment);
    }
  });
  await once(socket, 'data');
}

for (let there = 0; there < Number(many); there += 25) {
  // A few at a time: handshakes are not what is measured.
  await Promise.all(Array.from({ length: Math.min(25, Number(many) - there) }, follow));
}
console.log('listening on all connections');
await pause(1000); // what they were told to begin with is out of the way
since = clock();
await pause(Number(seconds) * 1000);
console.log(delays.toSorted((a, b) => a - b)[Math.floor(delays.length * 0.95)]);
process.exit(0);
