import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { orAborted } from './or-aborted.ts';
import type { Resolve } from './resolve.ts';
import { closedIpv4Ranges, ownRanges, refusedIpv4Ranges, refusedIpv6Ranges } from './special-addresses.ts';

/**
 * Which addresses may be called for strangers: receivers of webhooks are named by anybody with an account, submodules by
 * anybody who has a repository. Without this they could have us speak to whatever we can reach and they cannot: this
 * machine, its neighbours, the metadata service of its cloud. So only what is public is called, and of that nothing that
 * is this machine.
 *
 * Addresses are judged as sockets name them. `allowed` are the ranges, in CIDR form, that the operator lets through.
 */
export function addressJudge(allowed: readonly string[]): (address: string) => boolean {
  const listed = rangesOf(allowed);
  const refused = rangesOf([...refusedIpv4Ranges, ...refusedIpv6Ranges]);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined) return false;
    if (listed[family].check(plain, family)) return true;
    // The machine gains and loses addresses while this runs.
    return !refused[family].check(plain, family) && !rangesOf(ownRanges())[family].check(plain, family);
  };
}

/**
 * The same for what repositories name, which may reach what builds may. `allowed` are whole networks there, and this
 * machine has an address in them: it stays closed.
 */
export function outsideJudge(allowed: readonly string[]): (address: string) => boolean {
  const judge = addressJudge(allowed);
  const closed = rangesOf(closedIpv4Ranges);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined || !judge(address)) return false;
    return !closed[family].check(plain, family) && !rangesOf(ownRanges())[family].check(plain, family);
  };
}

type Family = 'ipv4' | 'ipv6';

/** An IPv4 address in IPv6's clothes reaches the IPv4 address, and is judged as that. */
function unmapped(address: string): { family: Family | undefined; plain: string } {
  const [plain = ''] = address.split('%');
  const version = isIP(plain);
  if (version === 0) return { family: undefined, plain };
  if (version === 4) return { family: 'ipv4', plain };
  // The parser of URLs knows every spelling of an IPv6 address and answers with one of them.
  const canonical = new URL(`http://[${plain}]/`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return { family: 'ipv6', plain: canonical };
  const [high, low] = [Number.parseInt(mapped[1] ?? '', 16), Number.parseInt(mapped[2] ?? '', 16)];
  return { family: 'ipv4', plain: [high >> 8, high & 255, low >> 8, low & 255].join('.') };
}

/** Apart, because a list takes an IPv4 address for one in IPv6's clothes too, which is inside a range of its own there. */
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
    // The address itself is not told: it may be the inside of somebody's network.
    super('the address is not public, and the operator of this service has not allowed it');
    this.name = 'ForbiddenAddressError';
  }
}

export interface AddressRules {
  mayCall: (address: string) => boolean;
  resolve: Resolve;
}

/**
 * Resolves the host of a URL and judges its addresses. What is answered is for the connection: whatever it looks up, the
 * answer is what was judged, so that there is no second look-up that could say something else.
 */
export async function judgedLookup(
  url: URL,
  { mayCall, resolve }: AddressRules,
  signal: AbortSignal,
): Promise<LookupFunction> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const addresses = (await orAborted(resolve(host, signal), signal)).filter(({ address }) => mayCall(address));
  if (addresses.length === 0) throw new ForbiddenAddressError();
  return always(addresses);
}

function always(addresses: LookupAddress[]): LookupFunction {
  return (_host, options, answer) => {
    const [first] = addresses;
    if (options.all) answer(null, addresses);
    else answer(null, first?.address ?? '', first?.family);
  };
}
