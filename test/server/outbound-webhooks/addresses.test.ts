import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/shared/lib/processes.ts';
import { publicAddressFilter, outsideAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import type { Resolve } from '../../../src/shared/lib/resolve.ts';
import { lacks } from '../../support/machine.ts';
import { Receiver } from '../../support/receiver.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { isDelivered, startTelling } from './support.ts';

describe('the filter of addresses', () => {
  const isAllowed = publicAddressFilter([]);

  test('lets public ones through', () => {
    for (const address of [
      '1.1.1.1',
      '93.184.216.34',
      '172.15.255.255',
      '172.32.0.1',
      '100.63.255.255',
      '100.128.0.1',
      '223.255.255.255',
      '::ffff:8.8.8.8',
      '2606:2800:220:1:248:1893:25c8:1946',
      '2a00:1450:4001::200e',
    ]) {
      assert.equal(isAllowed(address), true, address);
    }
  });

  test('refuses all others, in every spelling', () => {
    for (const address of [
      '0.0.0.0',
      '0.1.2.3',
      '10.1.2.3',
      '100.64.0.1',
      '100.127.255.255',
      '127.0.0.1',
      '127.255.255.255',
      '168.63.129.16',
      '169.254.169.254',
      '172.16.0.1',
      '172.31.255.255',
      '192.0.0.8',
      '192.0.2.1',
      '192.88.99.1',
      '192.168.1.1',
      '198.18.0.1',
      '198.51.100.1',
      '203.0.113.1',
      '224.0.0.1',
      '240.0.0.1',
      '255.255.255.255',
      '::',
      '::1',
      '0:0:0:0:0:0:0:1',
      '::127.0.0.1',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '0:0:0:0:0:ffff:a00:1',
      '::FFFF:192.168.0.1',
      '::ffff:168.63.129.16',
      '::a83f:8110',
      '64:ff9b::7f00:1',
      '64:ff9b::8.8.8.8',
      '64:ff9b:1::1',
      '64:ff9b::168.63.129.16',
      '64:ff9b:1::a9fe:a9fe',
      '100::1',
      '1fff:ffff::1',
      '2001::1',
      '2001:0:4136:e378:8000:63bf:3fff:fdd2',
      '2001:db8::1',
      '2002:7f00:1::',
      '2002:808:808::1',
      '3fff::1',
      '4000::1',
      '5f00::1',
      '8000::1',
      'fc00::1',
      'fd00:ec2::254',
      'fd12:3456::1',
      'fe80::1',
      'fe80::1%eth0',
      'fec0::1',
      'ff02::1',
      'localhost',
      '',
    ]) {
      assert.equal(isAllowed(address), false, address);
    }
  });

  test('lets through what the operator lists, and nothing beside it', () => {
    const listed = publicAddressFilter(['10.1.0.0/16', 'fd00:1::/32', '127.0.0.1/32']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd00:1::5', '127.0.0.1', '8.8.8.8']) {
      assert.equal(listed(address), true, address);
    }
    for (const address of ['10.2.0.1', 'fd00:2::1', '127.0.0.2', '::1', '::ffff:10.2.0.1']) {
      assert.equal(listed(address), false, address);
    }
  });
});

test('what repositories name never reaches this machine, also where its whole network is allowed [promise: git-addresses]', () => {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const networks = own.filter(({ family }) => family === 'IPv4').map(({ address }) => `${address}/8`);
  // A machine or a build may itself have an address of the network that is not allowed here.
  const isInTen = networks.some((network) => network.startsWith('10.'));
  const isAllowed = outsideAddressFilter(['10.1.0.0/16', '127.0.0.0/8', '169.254.0.0/16', ...networks]);
  for (const { address } of own) assert.equal(isAllowed(address), false, address);
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '169.254.169.254',
    '::1',
    '::ffff:127.0.0.1',
    isInTen ? '192.168.2.1' : '10.2.0.1',
    'localhost',
  ])
    assert.equal(isAllowed(address), false, address);
  for (const address of ['10.1.2.3', '8.8.8.8']) assert.equal(isAllowed(address), true, address);
});

const forbidden = 'the address is not public, and the operator of this service has not allowed it';

const skip = lacks('user namespaces', 'IPv6');

test(
  'a webhook is not sent to an address of this machine, also a public one that it gained later [promise: webhook-addresses]',
  { skip },
  async () => {
    const program = fileURLToPath(new URL('own-addresses.ts', import.meta.url));
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', program];
    const machine = await run('unshare', ['--user', '--map-root-user', '--net', ...node]);
    assert.equal(machine.status, 0, machine.stderr.toString());
    assert.deepEqual(JSON.parse(machine.stdout.toString()), {
      results: {
        '9.9.9.9': forbidden,
        '[::ffff:9.9.9.9]': forbidden,
        '[2a00:9::9]': forbidden,
        '9.9.10.9': forbidden,
        '9.9.11.7': forbidden,
        '[2a00:b::7]': forbidden,
        '9.9.9.8': 'answered 200',
        '[2a00:9::8]': 'answered 200',
      },
      elsewhere: [true, true],
    });
  },
);

/** Names that lead somewhere else each time they are looked up. */
const turns: Record<string, string[]> = {};
const resolve: Resolve = async (host) => {
  const address = turns[host]?.shift() ?? host;
  return [{ address, family: address.includes(':') ? 6 : 4 }];
};

describeServiceOnOne(
  'a webhook without leave',
  (service) => {
    test('is not sent to this machine, however it is called [promise: webhook-addresses]', async () => {
      let connections = 0;
      const server = createServer(() => {}).on('connection', () => (connections += 1));
      server.listen(0); // on all addresses, also where the kernel has no IPv6
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      turns['rebinding.example'] = ['127.0.0.1'];
      turns['mapped.example'] = ['::ffff:127.0.0.1'];
      for (const host of [
        '127.0.0.1',
        '127.1',
        '2130706433',
        '0x7f000001',
        '0177.0.0.1',
        '017700000001',
        '0x7f.1',
        '127.0.0.1.',
        '0.0.0.0',
        '0',
        '[::1]',
        '[::]',
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[0:0:0:0:0:0:0:1]',
        '①②⑦.⓪.⓪.①',
        'rebinding.example',
        'mapped.example',
      ]) {
        const telling = await startTelling(service, { url: `http://${host}:${port}/` });
        const [ping] = await telling.settled(({ attempts }) => attempts.length > 0);
        assert.deepEqual([ping?.attempts[0]?.status, ping?.attempts[0]?.error], [null, forbidden], host);
        await telling.user.delete(telling.path);
      }
      assert.equal(connections, 0);
      server.close();
    });
  },
  { webhooks: { resolve } },
);

describeServiceOnOne(
  'a webhook with leave for one address',
  (service) => {
    test('goes to the address that was judged, though the name would lead elsewhere the next time [promise: webhook-addresses]', async () => {
      await using receiver = await Receiver.start();
      turns['rebinding.example'] = ['127.0.0.1', '127.0.0.2', '10.0.0.1'];
      const url = `http://rebinding.example:${receiver.port}/hook?x=1`;
      await (await startTelling(service, { url })).settled(isDelivered);
      const [call] = receiver.calls;
      assert.deepEqual([call?.headers.host, call?.path], [`rebinding.example:${receiver.port}`, '/hook?x=1']);
      assert.deepEqual(turns['rebinding.example'], ['127.0.0.2', '10.0.0.1'], 'the name was looked up once');
    });

    test('is not sent to the one beside it', async () => {
      await using receiver = await Receiver.start();
      const telling = await startTelling(service, { url: `http://127.0.0.2:${receiver.port}/` });
      const [ping] = await telling.settled(({ attempts }) => attempts.length > 0);
      assert.equal(ping?.attempts[0]?.error, forbidden);
    });
  },
  { settings: { webhook_allow: '127.0.0.1/32' }, webhooks: { resolve } },
);
