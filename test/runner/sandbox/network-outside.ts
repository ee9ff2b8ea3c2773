/** Everything outside, for network-world.ts: a service on port 8080, and names that all lead to it. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

const server = createServer((socket) => socket.on('error', () => {}).end('outside')).listen(8080, '0.0.0.0');
await once(server, 'listening');
const names = createSocket('udp4');
names.on('message', (query, from) => {
  const end = query.indexOf(0, 12) + 5; // the question: a name, its type and class
  const isAddress = query.readUInt16BE(end - 4) === 1;
  const header = Buffer.from([query[0] ?? 0, query[1] ?? 0, 0x81, 0x80, 0, 1, 0, isAddress ? 1 : 0, 0, 0, 0, 0]);
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 20, 9, 9, 10]);
  names.send(Buffer.concat([header, query.subarray(12, end), ...(isAddress ? [answer] : [])]), from.port, from.address);
});
names.bind(53);
await once(names, 'listening');
process.stdin.on('end', () => process.exit()).resume();
process.stdout.write('ready\n');
