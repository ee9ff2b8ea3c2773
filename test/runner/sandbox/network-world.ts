/**
 * A small world in network namespaces of its own, for network.test.ts: this process is the machine, and one more
 * process is everything outside it, reachable at a public and at a private address over a pair of virtual cables.
 * Started by `unshare --net --mount`, so that all of it vanishes with it. Prints what a build could reach.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/shared/lib/processes.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';

const [folder = '', ...allow] = process.argv.slice(2);
async function must(program: string, ...args: string[]): Promise<void> {
  const done = await run(program, args);
  if (done.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${done.stderr.toString()}`);
}

const outside = spawn(
  'unshare',
  [
    '--net',
    process.execPath,
    '--disable-warning=ExperimentalWarning',
    fileURLToPath(new URL('network-outside.ts', import.meta.url)),
  ],
  {
    stdio: ['pipe', 'pipe', 'inherit'], // it ends when its input closes
  },
);
await once(outside.stdout, 'data');
const inOutside = ['--net=/proc/' + outside.pid + '/ns/net', 'ip'];
await must('ip', 'link', 'set', 'lo', 'up');
await must('ip', 'link', 'add', 'cable', 'type', 'veth', 'peer', 'name', 'cable', 'netns', String(outside.pid));
for (const address of ['20.9.9.1/24', '10.9.9.1/24', '169.254.1.1/16'])
  await must('ip', 'address', 'add', address, 'dev', 'cable');
for (const address of ['20.9.9.10/24', '10.9.9.10/24', '169.254.169.254/16'])
  await must('nsenter', ...inOutside, 'address', 'add', address, 'dev', 'cable');
await must('ip', 'link', 'set', 'cable', 'up');
await must('nsenter', ...inOutside, 'link', 'set', 'cable', 'up');
writeFileSync(join(folder, 'resolv.conf'), 'nameserver 10.9.9.10\n');
await must('mount', '--bind', join(folder, 'resolv.conf'), '/etc/resolv.conf');
const here = createServer((socket) => socket.on('error', () => {}).end('here')).listen(8080, '0.0.0.0');

const sandboxes = await openSandboxes({
  stateDir: join(folder, 'state'),
  network: 'internet',
  allow,
  isolation: 'required',
  log: () => {},
});
const targets = [
  '20.9.9.10',
  'somewhere.example',
  '20.9.9.1',
  '10.9.9.10',
  '10.9.9.1',
  '10.0.2.2',
  '10.0.2.3',
  '127.0.0.1',
  '169.254.169.254',
  '168.63.129.16',
];
const ask = `perl -MIO::Socket::INET -e 'for (@ARGV) { $c = IO::Socket::INET->new(PeerAddr => "$_:8080", Timeout => 5); print "$_ ", ($c ? <$c> : "refused"), "\\n" }' ${targets.join(' ')}
  perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 9000, Listen => 1) or die; $c = IO::Socket::INET->new("127.0.0.1:9000"); print "own-loopback ", ($c ? "works" : "broken"), "\\n"'
  nft list ruleset >/dev/null 2>&1 && echo rules seen; nft flush ruleset 2>/dev/null && echo rules flushed; ip link set tap0 down 2>/dev/null && echo link changed; :`;
/** Reached at first, perhaps, but refused within a few seconds. */
function untilRefused(address: string): string {
  return `perl -MIO::Socket::INET -e 'for (1 .. 100) { if (!IO::Socket::INET->new(PeerAddr => "${address}:8080", Timeout => 5)) { print "gained refused\\n"; exit } select undef, undef, undef, 0.1 } print "gained reached\\n"'`;
}
let said = '';
for (const id of ['first', 'second']) {
  const ended = await sandboxes.run({
    id,
    steps: [{ name: 'ask', command: ask }],
    environment: {},
    workspace: { empty: true },
    limits: { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 60_000 },
    output: (chunk) => void (said += chunk.toString()),
    signal: new AbortController().signal,
  });
  if (ended.exitStatus !== 0) said += `ended with ${ended.exitStatus ?? ended.reason}\n`;
}

// An address that the machine gains while a build runs. The build asks when it is told to, until it is refused.
const told = join(folder, 'told');
mkdirSync(told);
await sandboxes.run({
  id: 'gained',
  steps: [
    {
      name: 'ask',
      command: `echo waiting; until [ -e /opt/told/go ]; do sleep 0.05; done; ${untilRefused('20.9.9.77')}`,
    },
  ],
  environment: {},
  workspace: { empty: true },
  mounts: [{ at: '/opt/told', layers: [told] }],
  limits: { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 60_000 },
  output: async (chunk) => {
    const text = chunk.toString();
    if (!text.startsWith('waiting')) {
      said += text;
      return;
    }
    await must('ip', 'address', 'add', '20.9.9.77/24', 'dev', 'cable');
    writeFileSync(join(told, 'go'), '');
  },
  signal: new AbortController().signal,
});
await sandboxes.close();
here.close();
outside.stdin.end();
await once(outside, 'exit');
process.stdout.write(said);
