import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { orAborted } from './or-aborted.ts';
import type { Resolve } from './resolve.ts';
import type { TlsTrust } from './tls-trust.ts';
import { closedIpv4Ranges, ownRanges, refusedIpv4Ranges, refusedIpv6Ranges } from './special-addresses.ts';

/**
 * Addresses that may be called for users. Any account names webhook receivers, and any repository names submodules.
 * Unchecked, the server would call addresses that only it can reach: this machine, its neighbours, its cloud's metadata
 * service. So only public addresses pass, and none of this machine.
 *
 * Addresses have the form of sockets. `allowed` are ranges in CIDR form that the operator permits.
 */
export function publicAddressFilter(allowed: readonly string[]): (address: string) => boolean {
  const listed = rangesOf(allowed);
  const refused = rangesOf([...refusedIpv4Ranges, ...refusedIpv6Ranges]);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined) return false;
    if (listed[family].check(plain, family)) return true;
    // The machine's addresses can change while this runs.
    return !refused[family].check(plain, family) && !rangesOf(ownRanges())[family].check(plain, family);
  };
}

/** For addresses in repositories. `allowed` are networks in which this machine's own address stays refused. */
export function outsideAddressFilter(allowed: readonly string[]): (address: string) => boolean {
  const isPublic = publicAddressFilter(allowed);
  const closed = rangesOf(closedIpv4Ranges);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined || !isPublic(address)) return false;
    return !closed[family].check(plain, family) && !rangesOf(ownRanges())[family].check(plain, family);
  };
}

/** In CIDR form. Undefined if anything else is in the list. */
export function readRanges(value: string): string[] | undefined {
  const ranges = value.split(/[\s,]+/).filter((range) => range !== '');
  return ranges.every(isRange) ? ranges : undefined;
}

function isRange(range: string): boolean {
  const [address = '', prefix = '', ...more] = range.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return more.length === 0 && !address.includes('%') && /^[0-9]{1,3}$/.test(prefix) && Number(prefix) <= bits;
}

type Family = 'ipv4' | 'ipv6';

/** An IPv4 address written as IPv6 reaches the IPv4 address, and is checked as one. */
function unmapped(address: string): { family: Family | undefined; plain: string } {
  const [plain = ''] = address.split('%');
  const version = isIP(plain);
  if (version === 0) return { family: undefined, plain };
  if (version === 4) return { family: 'ipv4', plain };
  // The URL parser knows every spelling of an IPv6 address and returns one canonical spelling.
  const canonical = new URL(`http://[${plain}]/`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return { family: 'ipv6', plain: canonical };
  const [high, low] = [Number.parseInt(mapped[1] ?? '', 16), Number.parseInt(mapped[2] ?? '', 16)];
  return { family: 'ipv4', plain: [high >> 8, high & 255, low >> 8, low & 255].join('.') };
}

/** One list per family: otherwise an IPv4 address would match a refused IPv6 range as IPv6-mapped. */
function rangesOf(ranges: readonly string[]): Record<Family, BlockList> {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const range of ranges) {
    const [net = '', prefix = ''] = range.split('/');
    const family = isIP(net) === 4 ? 'ipv4' : 'ipv6';
    lists[family].addSubnet(net, Number(prefix), family);
  }
  return lists;
}

export class ForbiddenAddressError extends Error {
  constructor() {
    // The address is omitted, because it may belong to an internal network.
    super('the address is not public, and the operator of this service has not allowed it');
    this.name = 'ForbiddenAddressError';
  }
}

export interface AddressRules {
  mayCall: (address: string) => boolean;
  resolve: Resolve;
  /** Trusted certificates, if this process speaks TLS itself. */
  trust?: Pick<TlsTrust, 'context'>;
}

export async function allowedAddresses(
  host: string,
  { mayCall, resolve }: AddressRules,
  signal: AbortSignal,
): Promise<LookupAddress[]> {
  const addresses = (await orAborted(resolve(host, signal), signal)).filter(({ address }) => mayCall(address));
  if (addresses.length === 0) throw new ForbiddenAddressError();
  return addresses;
}

/** The returned lookup gives the connection only checked addresses, so no second lookup can change the result. */
export async function allowedLookup(url: URL, rules: AddressRules, signal: AbortSignal): Promise<LookupFunction> {
  return always(await allowedAddresses(url.hostname.replace(/^\[(.*)\]$/, '$1'), rules, signal));
}

function always(addresses: LookupAddress[]): LookupFunction {
  return (_host, options, answer) => {
    const [first] = addresses;
    if (options.all) answer(null, addresses);
    else answer(null, first?.address ?? '', first?.family);
  };
}
