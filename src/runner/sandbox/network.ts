import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import { run } from '../../lib/processes.ts';
import type { Command } from './types.ts';

/**
 * The outside world for one slot (`internet`).
 *
 * slirp4netns carries the slot's traffic through ordinary sockets of this machine. It serves root and ordinary
 * users alike and leaves the machine's own network as it is: no forwarding switched on, no address translation,
 * no quarrel with a firewall that drops what it does not know. It is started once per slot, not per build.
 *
 * What may be reached is decided inside the slot's network namespace, by rules that a build cannot change: the
 * namespace belongs to the runner, and in it a build has no capability. Refused are the special and private
 * ranges, and the machine's own addresses, which are public on some machines: a service bound to all of them
 * would otherwise meet a build as if it came from the machine itself.
 *
 * Names: slirp4netns answers on DNS_ADDRESS by asking the machine's resolver, also one on loopback or in a
 * private range. It would carry any port of that address to the resolver's host, so only port 53 is let through.
 *
 * IPv4 only: slirp4netns calls its IPv6 experimental. Loopback has both.
 */
export const DNS_ADDRESS = '10.0.2.3';

const REFUSED_RANGES =
  '0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.168.0.0/16, ' +
  '198.18.0.0/15, 224.0.0.0/3';

export interface Outside {
  close(): Promise<void>;
}

/** `enter` runs the command that follows it inside the slot's namespaces, with power over them. */
export async function connectOutside(slot: { pid: number; root: boolean; enter: Command }): Promise<Outside> {
  await loadRules(slot.enter);
  const where = slot.root ? [] : [`--userns-path=/proc/${slot.pid}/ns/user`];
  const options = [
    '--configure',
    '--mtu=65520',
    '--disable-host-loopback',
    '--enable-sandbox',
    '--enable-seccomp',
    ...where,
  ];
  const child = spawn(
    'slirp4netns',
    [...options, '--ready-fd=3', '--exit-fd=4', '--netns-type=path', `/proc/${slot.pid}/ns/net`, 'tap0'],
    {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
    },
  );
  const ended = once(child, 'close').catch(() => {});
  let complaint = '';
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  // It ends when this descriptor closes: at the latest when the runner is gone, however that came about.
  const leash = child.stdio[4];
  leash?.on('error', () => {});
  const close = async (): Promise<void> => {
    leash?.destroy();
    await ended;
  };
  const ready = child.stdio[3];
  const isReady = ready && (await Promise.race([once(ready, 'data').then(() => true), ended.then(() => false)]));
  if (isReady) return { close };
  await close();
  throw new Error(`slirp4netns could not connect a sandbox to the outside: ${complaint.trim()}`);
}

async function loadRules([program, ...enter]: Command): Promise<void> {
  const loaded = await run(program, [...enter, 'nft', '-f', '-'], {
    input: rules(ownAddresses()),
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  if (loaded.status !== 0)
    throw new Error(`nft refused the rules of a sandbox's network: ${loaded.stderr.toString().trim()}`);
}

function rules(own: readonly string[]): string {
  const refused = [REFUSED_RANGES, ...own];
  return `
    table inet sandbox {
      set refused { type ipv4_addr; flags interval; auto-merge; elements = { ${refused.join(', ')} } }
      chain output {
        type filter hook output priority filter; policy accept;
        oifname "lo" accept
        ip daddr ${DNS_ADDRESS} meta l4proto { tcp, udp } th dport 53 accept
        ip daddr @refused reject with icmpx type admin-prohibited
        meta nfproto ipv6 reject with icmpx type admin-prohibited
      }
    }`;
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family }) => family === 'IPv4')
    .map(({ address }) => address);
}
