/**
 * A machine with public addresses of its own, for addresses.test.ts. Started by `unshare --net`, so that they vanish
 * with it. A service listens on all of them; prints what came of each call to it.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { run } from '../../../src/shared/lib/processes.ts';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import { createMask } from '../../../src/shared/domain/masking.ts';
import { makeCall } from '../../../src/server/outbound-webhooks/http-call.ts';
import { createResolve } from '../../../src/shared/lib/resolve.ts';

async function ip(...args: string[]): Promise<void> {
  const done = await run('ip', args);
  if (done.status !== 0) throw new Error(`ip ${args.join(' ')}: ${done.stderr.toString()}`);
}

await ip('link', 'set', 'lo', 'up');
const server = createServer((_, response) => response.end('here')).listen(0, '::'); // also for IPv4
await once(server, 'listening');
const { port } = server.address() as AddressInfo;

// Made before there is any address: what comes later counts too.
const isAllowed = publicAddressFilter(['9.9.9.8/32', '2a00:9::8/128']);
const results: Record<string, string> = {};
async function call(host: string): Promise<void> {
  const { status, error } = await makeCall(
    { url: `http://${host}:${port}/`, headers: {}, body: '', secrets: [] },
    {
      answerWithin: 5000,
      mayCall: isAllowed,
      resolve: createResolve(),
      signal: new AbortController().signal,
      mask: createMask([]),
    },
  );
  results[host] = error === '' ? `answered ${status}` : error;
}

await ip('address', 'add', '9.9.9.9/32', 'dev', 'lo');
await ip('address', 'add', '9.9.9.8/32', 'dev', 'lo');
for (const address of ['2a00:9::9/128', '2a00:9::8/128']) await ip('address', 'add', address, 'dev', 'lo', 'nodad');
// An interface that is switched on and not plugged in. Its address is answered all the same.
await ip('link', 'add', 'cable', 'type', 'veth', 'peer', 'name', 'other-end');
await ip('address', 'add', '9.9.10.9/24', 'dev', 'cable');
await ip('link', 'set', 'cable', 'up');
await ip('route', 'add', 'local', '9.9.11.0/24', 'dev', 'lo');
await ip('-6', 'route', 'add', 'local', '2a00:b::/64', 'dev', 'lo');

for (const host of ['9.9.9.9', '[::ffff:9.9.9.9]', '[2a00:9::9]', '9.9.10.9', '9.9.11.7', '[2a00:b::7]'])
  await call(host);
for (const host of ['9.9.9.8', '[2a00:9::8]']) await call(host);
process.stdout.write(JSON.stringify({ results, elsewhere: ['9.9.12.1', '2a00:c::1'].map(isAllowed) }));
server.close();
