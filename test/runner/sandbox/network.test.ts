import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/shared/lib/processes.ts';
import { open } from './support.ts';
import { lacks } from '../../support/machine.ts';

const skip = lacks('networks', 'mounts', 'ip', 'tun');

/** What a build reaches in the world of network-world.ts, with these ranges opened to it. */
async function reached(t: TestContext, ...allow: string[]): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-network-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const world = fileURLToPath(new URL('network-world.ts', import.meta.url));
  const program = [process.execPath, '--disable-warning=ExperimentalWarning', world, folder, ...allow];
  const ran = await run('unshare', ['--net', '--mount', '--propagation', 'private', ...program]);
  return (ran.stdout.toString() + ran.stderr.toString()).trim().split('\n');
}

test(
  'what was refused is told of a run that did not pass, and of few addresses, however many it tries [promise: build-network]',
  { skip: lacks('tun') },
  async (t) => {
    const { sh } = await open(t, { network: 'internet' });
    const call = (address: string, ports: string): string =>
      `perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => "${address}:$_", Timeout => 30) and print "reached" for ${ports}'`;
    const tries = `${call('10.1.2.3', '443, 443, 80')}; ${call('169.254.169.254', '80')}; ${call('127.0.0.1', '9')}`;
    const began = performance.now();
    const failed = await sh(`${tries}; exit 3`);
    assert.ok(performance.now() - began < 30_000, 'a refusal comes at once'); // or the first try alone takes as long
    assert.equal(failed.text, '');
    assert.deepEqual(failed.refused?.toSorted(), ['10.1.2.3 port 443', '10.1.2.3 port 80', '169.254.169.254 port 80']);
    const asking = `perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => "10.0.2.3:53", Proto => "udp")->send("x" x 1000)'`;
    const asked = await sh(asking);
    assert.ok((asked.used?.networkSent ?? 0) >= 1000, JSON.stringify(asked));
    assert.equal((await sh(tries)).refused, undefined);
    assert.equal((await sh('exit 3')).refused, undefined);
    assert.equal((await sh(`${call('10.1.2.3', '1 .. 2000')}; exit 3`)).refused?.length, 11);
  },
);

const withPrivate = (answer: string): string[] => [
  '20.9.9.10 outside',
  'somewhere.example outside',
  '20.9.9.1 refused',
  `10.9.9.10 ${answer}`,
  '10.9.9.1 refused',
  '10.0.2.2 refused',
  '10.0.2.3 refused',
  '127.0.0.1 refused',
  '169.254.169.254 refused',
  '168.63.129.16 refused',
  'own-loopback works',
];

test(
  'internet: outside and its names yes; private ranges, the machine and its loopback no [promise: build-network]',
  { skip },
  async (t) => {
    const usual = withPrivate('refused');
    assert.deepEqual(await reached(t), [...usual, ...usual, 'gained refused']);
  },
);

test(
  'private ranges that an operator opens are reached; the machine, its link and its loopback are not, also inside them [promise: build-network]',
  { skip },
  async (t) => {
    const opened = withPrivate('outside');
    for (const allow of [['10.0.0.0/8', '169.254.0.0/16'], ['0.0.0.0/0']])
      assert.deepEqual(await reached(t, ...allow), [...opened, ...opened, 'gained refused']);
  },
);
