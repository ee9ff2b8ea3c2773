import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { run } from '../../shared/lib/processes.ts';
import { closedIpv4Ranges, ownRanges, refusedIpv4Ranges } from '../../shared/lib/special-addresses.ts';
import { openDoor, type Door } from './door.ts';
import type { NamespacePaths } from './mount-helper.ts';
import type { Command } from './types.ts';

/**
 * The network of one run (`internet`). slirp4netns works for root and ordinary users and leaves the machine's network
 * unchanged. Each run has its own, so that late packets, or a process that a run took over, never reach the next run.
 *
 * Rules in the run's network namespace decide which addresses it may reach. A build has no capability there, so it
 * cannot change them. They refuse special and private ranges, and the machine's own addresses: a service bound to all
 * addresses would take a build for the machine itself. HEADRACE_BUILD_ALLOW opens private ranges. Loopback, link-local
 * (cloud metadata with secrets) and the machine's own addresses always stay closed. The machine's addresses can change,
 * so they are read every second and all rules are updated.
 *
 * slirp4netns answers DNS on `dnsAddress`. It would forward any port there to the resolver's host, so only 53 is
 * allowed. Refused addresses go into a set of limited size, for the log of a run that did not pass.
 *
 * IPv4 only: slirp4netns calls its IPv6 experimental. Loopback has both.
 */
export const dnsAddress = '10.0.2.3';

const checkEveryMs = 1000;
/** One more than the log shows. */
const mostRefused = 11;

export interface Outside {
  /** The first refusals, such as `10.0.0.7 port 443`. */
  refused(): Promise<string[]>;
  openDoor(door: Door, socket: string): Promise<AsyncDisposable>;
  close(): Promise<void>;
}

export interface Outsides {
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
  let timer: NodeJS.Timeout | undefined;

  const updateAddresses = (): void => {
    const now = ownAddresses();
    const gained = now.filter((address) => !known.includes(address));
    known = now;
    if (gained.length === 0) return;
    for (const namespaces of connected.values()) {
      loadRules(entrance(namespaces, root), refuse(gained)).catch((error: unknown) =>
        log(`a sandbox can reach a new address of this machine, because its rules were not updated: ${String(error)}`),
      );
    }
  };
  return {
    connect: async (namespaces) => {
      updateAddresses();
      await loadRules(entrance(namespaces, root), rules(known, allow));
      const outside = await startSlirp(namespaces, root);
      const own: Outside = {
        refused: () => readRefused(entrance(namespaces, root)),
        openDoor: (door, socket) => openDoor(networkOnly(namespaces, root), socket, door),
        close: async () => {
          connected.delete(own);
          if (connected.size === 0) clearInterval(timer);
          await outside.close();
        },
      };
      connected.set(own, namespaces);
      if (connected.size === 1) timer = setInterval(updateAddresses, checkEveryMs).unref();
      return own;
    },
    close: () => clearInterval(timer),
  };
}

/** A command prefix that runs a command in a run's namespaces, with the right to change them. */
function entrance({ mount, network, user }: NamespacePaths, root: boolean): Command {
  const options = [`--mount=${mount}`, `--net=${network}`];
  if (!root) options.push(`--user=${user}`, '--preserve-credentials');
  return ['nsenter', ...options];
}

/** The files are those of the machine. */
function networkOnly({ network, user }: NamespacePaths, root: boolean): Command {
  return ['nsenter', `--net=${network}`, ...(root ? [] : [`--user=${user}`, '--preserve-credentials'])];
}

async function startSlirp({ network, user }: NamespacePaths, root: boolean): Promise<Pick<Outside, 'close'>> {
  const options = ['--configure', '--mtu=65520', '--disable-host-loopback', '--enable-sandbox', '--enable-seccomp'];
  const slirp = ['slirp4netns', ...options, '--ready-fd=3', '--exit-fd=4', '--netns-type=path', network, 'tap0'];
  // An ordinary user is root in the user namespace that owns the network. With --userns-path, version 1.2 of
  // slirp4netns would enter it for only one of its two processes, and run without its sandbox.
  const [program, ...args] = root ? slirp : ['nsenter', `--user=${user}`, '--preserve-credentials', ...slirp];
  const child = spawn(program as string, args, { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], detached: true });
  const ended = once(child, 'close').catch(() => {});
  let complaint = '';
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  // slirp4netns ends when this descriptor closes, at the latest when the runner ends for any reason.
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

const toolPath = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };

async function readRefused([program, ...enter]: Command): Promise<string[]> {
  const listed = await run(program, [...enter, 'nft', '-j', 'list', 'set', 'inet', 'sandbox', 'tried'], {
    env: toolPath,
  });
  if (listed.status !== 0) throw new Error(`nft did not list a set: ${listed.stderr.toString().trim()}`);
  const { nftables } = JSON.parse(listed.stdout.toString()) as { nftables: { set?: { elem?: RefusedAddress[] } }[] };
  const tried = nftables.flatMap(({ set }) => set?.elem ?? []);
  return tried.map(({ concat: [address, port] }) => `${address} port ${port}`);
}

interface RefusedAddress {
  concat: [string, number];
}

async function loadRules([program, ...enter]: Command, input: string): Promise<void> {
  const loaded = await run(program, [...enter, 'nft', '-f', '-'], { input, env: toolPath });
  if (loaded.status !== 0)
    throw new Error(`nft refused the rules of a sandbox's network: ${loaded.stderr.toString().trim()}`);
}

function rules(own: readonly string[], allowed: readonly string[]): string {
  return `
    table inet sandbox {
      ${setOf('closed', [...closedIpv4Ranges, ...own])}
      ${allowed.length > 0 ? setOf('allowed', allowed) : ''}
      ${setOf('refused', refusedIpv4Ranges)}
      set tried { type ipv4_addr . inet_service; flags dynamic; size ${mostRefused}; }
      chain refuse {
        meta l4proto { tcp, udp } add @tried { ip daddr . th dport }
        reject with icmpx type admin-prohibited
      }
      chain output {
        type filter hook output priority filter; policy accept;
        oifname "lo" accept
        ip daddr ${dnsAddress} meta l4proto { tcp, udp } th dport 53 accept
        ip daddr @closed goto refuse
        ${allowed.length > 0 ? 'ip daddr @allowed accept' : ''}
        ip daddr @refused goto refuse
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

/** IPv4 only: no IPv6 traffic gets out anyway. */
function ownAddresses(): string[] {
  return ownRanges().filter((range) => !range.includes(':'));
}
