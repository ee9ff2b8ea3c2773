import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

/**
 * Addresses that users must not reach: those outside the public internet, and the few public ones that lead inside. In
 * CIDR form, which block lists and nftables both accept. For IPv4 these are the blocks that the registries reserve.
 */
export const refusedIpv4Ranges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32', // the metadata service of Azure: the only such service with a public address
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

/** Closed to builds whatever is allowed: this machine, its link, and the addresses of slirp4netns. */
export const closedIpv4Ranges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.2.0/24',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '224.0.0.0/3',
];

/**
 * Everything outside 2000::/3, the only allocated range: private and link-local addresses, NAT64, and IPv4
 * written as IPv6. Inside it, ranges for documentation and for protocols whose gateway would call an embedded IPv4
 * address (Teredo, 6to4).
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
 * The machine's own addresses at this moment, as CIDR. Even public ones are refused: a service on all addresses would
 * take the call for a local one.
 *
 * The kernel's route tables list its local addresses, also those of whole ranges, and Node lists interfaces that are
 * up. Both are read, because the tables may be invisible in a confined process.
 */
export function ownRanges(): string[] {
  const listed = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(({ address, family }) => `${address.replace(/%.*/, '')}/${family === 'IPv4' ? 32 : 128}`);
  return [...new Set([...listed, ...localIPv4(), ...localIPv6()])];
}

/** A leaf of the trie is an address. Below it are the lengths and kinds of the ranges that begin there. */
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

/** Address and length come first, in hexadecimal, and the flags last but one: a local route has the highest bit set. */
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
