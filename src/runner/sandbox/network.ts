import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { run } from '../../lib/processes.ts';
import { closedIpv4Ranges, ownRanges, refusedIpv4Ranges } from '../../lib/special-addresses.ts';
import type { NamespacePaths } from './mount-helper.ts';
import type { Command } from './types.ts';

/**
 * The outside world for one run (`internet`).
 *
 * slirp4netns carries the run's traffic through ordinary sockets of this machine. It serves root and ordinary
 * users alike and leaves the machine's own network as it is: no forwarding switched on, no address translation,
 * no quarrel with a firewall that drops what it does not know. Each run has one of its own, started ahead with its
 * sandbox: what still arrives for a run that is over, or what it did to the process that carried its packets, must
 * not meet the next.
 *
 * What may be reached is decided inside the run's network namespace, by rules that a build cannot change: the
 * namespace belongs to the runner, and in it a build has no capability. Refused are the special and private
 * ranges, and the machine's own addresses, which are public on some machines: a service bound to all of them
 * would otherwise meet a build as if it came from the machine itself. An operator can open private ranges
 * (HEADRACE_BUILD_ALLOW), for instance where a company has a mirror; loopback, the neighbours on the link, where clouds tell
 * machines their secrets, and the machine's own addresses stay closed also then. A machine can gain addresses (a VPN, a new
 * lease), so they are looked at again every second while there are sandboxes, and the rules of all of them follow.
 *
 * Names: slirp4netns answers on `dnsAddress` by asking the machine's resolver, also one on loopback or in a
 * private range. It would carry any port of that address to the resolver's host, so only port 53 is let through.
 *
 * IPv4 only: slirp4netns calls its IPv6 experimental. Loopback has both.
 */
export const dnsAddress = '10.0.2.3';

const lookEveryMs = 1000;

export interface Outside {
  close(): Promise<void>;
}

export interface Outsides {
  /** Connects the network of a run. */
  connect(namespaces: NamespacePaths): Promise<Outside>;
  close(): void;
}

interface OutsideOptions {
  root: boolean;
  /** Private ranges that may be reached. */
  allow?: readonly string[] | undefined;
  log: (message: string) => void;
}

export function openOutside({ root, allow = [], log }: OutsideOptions): Outsides {
  const connected = new Map<Outside, NamespacePaths>();
  let known = ownAddresses();
  let looking: NodeJS.Timeout | undefined;

  const look = (): void => {
    const now = ownAddresses();
    const gained = now.filter((address) => !known.includes(address));
    known = now;
    if (gained.length === 0) return;
    for (const namespaces of connected.values()) {
      loadRules(entrance(namespaces, root), refuse(gained)).catch((error: unknown) =>
        log(`a sandbox can reach an address that this machine has just gained: ${String(error)}`),
      );
    }
  };
  return {
    connect: async (namespaces) => {
      look();
      await loadRules(entrance(namespaces, root), rules(known, allow));
      const outside = await startSlirp(namespaces, root);
      const own: Outside = {
        close: async () => {
          connected.delete(own);
          if (connected.size === 0) clearInterval(looking);
          await outside.close();
        },
      };
      connected.set(own, namespaces);
      if (connected.size === 1) looking = setInterval(look, lookEveryMs).unref();
      return own;
    },
    close: () => clearInterval(looking),
  };
}

/** The command that runs what follows it inside the namespaces of a run, with power over them. */
function entrance({ mount, network, user }: NamespacePaths, root: boolean): Command {
  const options = [`--mount=${mount}`, `--net=${network}`];
  if (!root) options.push(`--user=${user}`, '--preserve-credentials');
  return ['nsenter', ...options];
}

async function startSlirp({ network, user }: NamespacePaths, root: boolean): Promise<Outside> {
  const where = root ? [] : [`--userns-path=${user}`];
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
    [...options, '--ready-fd=3', '--exit-fd=4', '--netns-type=path', network, 'tap0'],
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

async function loadRules([program, ...enter]: Command, input: string): Promise<void> {
  const loaded = await run(program, [...enter, 'nft', '-f', '-'], {
    input,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  if (loaded.status !== 0)
    throw new Error(`nft refused the rules of a sandbox's network: ${loaded.stderr.toString().trim()}`);
}

function rules(own: readonly string[], allowed: readonly string[]): string {
  return `
    table inet sandbox {
      ${setOf('closed', [...closedIpv4Ranges, ...own])}
      ${allowed.length > 0 ? setOf('allowed', allowed) : ''}
      ${setOf('refused', refusedIpv4Ranges)}
      chain output {
        type filter hook output priority filter; policy accept;
        oifname "lo" accept
        ip daddr ${dnsAddress} meta l4proto { tcp, udp } th dport 53 accept
        ip daddr @closed reject with icmpx type admin-prohibited
        ${allowed.length > 0 ? 'ip daddr @allowed accept' : ''}
        ip daddr @refused reject with icmpx type admin-prohibited
        meta nfproto ipv6 reject with icmpx type admin-prohibited
      }
    }`;
}

function setOf(name: string, ranges: readonly string[]): string {
  return `set ${name} { type ipv4_addr; flags interval; auto-merge; elements = { ${ranges.join(', ')} } }`;
}

function refuse(addresses: readonly string[]): string {
  return `add element inet sandbox closed { ${addresses.join(', ')} }`;
}

/** Of the other family nothing gets out anyway. */
function ownAddresses(): string[] {
  return ownRanges().filter((range) => !range.includes(':'));
}
