import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

/**
 * Addresses that are not for strangers to reach: what is not given out for the internet at large, and the few that are
 * and still lead inside. As CIDR, the form that a block list and nftables both take.
 *
 * For IPv4 these are the blocks that the registries keep for other uses.
 */
export const refusedIpv4Ranges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32', // where Azure tells its machines about themselves: the one such address among the public ones
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];

/** Of these, what stays closed to builds whatever is allowed: this machine, its link, and what slirp4netns makes up. */
export const closedIpv4Ranges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.2.0/24',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '224.0.0.0/3',
];

/**
 * For IPv6, everything outside 2000::/3, which alone is given out. With it go private addresses, those of one link, the
 * prefixes of NAT64, and IPv4 addresses written as IPv6. And what is inside, but for documentation or for protocols
 * that carry an IPv4 address which somebody on the way would call instead (Teredo, 6to4).
 */
export const refusedIpv6Ranges: readonly string[] = [
  '::/3',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '4000::/2',
  '8000::/1',
];

/**
 * The machine's own addresses at this moment, as CIDR. They may be public, and a service that listens on all of them
 * would meet whoever calls from here as if it were the machine itself.
 *
 * The kernel's tables of routes say what it takes for its own. Node lists the addresses of interfaces that are plugged
 * in, but those of others are answered too, and so are whole ranges that somebody has made local. Both are asked: in a
 * confined process the tables may be out of sight.
 */
export function ownRanges(): string[] {
  const listed = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(({ address, family }) => `${address.replace(/%.*/, '')}/${family === 'IPv4' ? 32 : 128}`);
  return [...new Set([...listed, ...localIPv4(), ...localIPv6()])];
}

/** A leaf of the trie is an address, and below it stand the lengths and kinds of the ranges that begin there. */
function localIPv4(): string[] {
  const found: string[] = [];
  let start = '';
  for (const line of linesOf('/proc/net/fib_trie')) {
    start = /\|-- ([\d.]+)$/.exec(line)?.[1] ?? start;
    const length = /^ *\/(\d+) \w+ LOCAL$/.exec(line)?.[1];
    if (length !== undefined) found.push(`${start}/${length}`);
  }
  return found;
}

/** Address and length stand first, in hexadecimal, the flags last but one: of a local route the highest is set. */
function localIPv6(): string[] {
  return linesOf('/proc/net/ipv6_route').flatMap((line) => {
    const [, address, length = ''] = /^([0-9a-f]{32}) ([0-9a-f]{2}) .* [89a-f][0-9a-f]{7} +\S+$/.exec(line) ?? [];
    if (address === undefined) return [];
    return [`${address.replace(/.{4}(?!$)/g, '$&:')}/${Number.parseInt(length, 16)}`];
  });
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}
