import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

/**
 * A process of clients who follow one stream over connections of their own, and look for moments that are written in it
 * as `@nanoseconds@`. Says when all are there, and at the end how late, in milliseconds, the moments arrived at them.
 */
const [, , address = '', authorization = '', many = '1'] = process.argv;
const { hostname, port, pathname } = new URL(address);
const head = `GET ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${authorization}\r\n\r\n`;
const delays: number[] = [];

function follow(): { answered: Promise<unknown>; ended: Promise<unknown> } {
  const socket: TLSSocket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
  socket.setEncoding('latin1');
  socket.on('secureConnect', () => socket.write(head));
  const ended = Promise.withResolvers<void>();
  socket.on('data', (text: string) => {
    const now = performance.timeOrigin + performance.now();
    for (const [, moment] of text.matchAll(/@(\d+)@/g)) delays.push(now - Number(moment) / 1e6);
    if (!text.includes('event: end')) return;
    socket.destroy();
    ended.resolve();
  });
  socket.on('error', ended.reject);
  return { answered: once(socket, 'data'), ended: ended.promise };
}

const followers: ReturnType<typeof follow>[] = [];
while (followers.length < Number(many)) {
  const group = Array.from({ length: Math.min(25, Number(many) - followers.length) }, follow);
  followers.push(...group);
  await Promise.all(group.map(({ answered }) => answered)); // a few at a time: handshakes are not what is measured
}
delays.length = 0; // what they were told to begin with
console.log('listening on all connections');
await Promise.all(followers.map(({ ended }) => ended));
console.log(JSON.stringify(delays.map((delay) => Math.round(delay * 100) / 100)));
