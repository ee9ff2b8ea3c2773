import { BlockList, isIP } from 'node:net';
import { ownRanges, REFUSED_IPV4_RANGES, REFUSED_IPV6_RANGES } from '../lib/special-addresses.ts';

/**
 * Which addresses may be called. Anybody with an account names the receivers, so without this they could have the server
 * speak to whatever it can reach and they cannot: itself, its neighbours, the metadata service of its cloud. So only
 * what is public is called, and of that nothing that is this machine.
 *
 * Addresses are judged as sockets name them. `allowed` are the ranges, in CIDR form, that the operator lets through.
 */
export function addressJudge(allowed: readonly string[]): (address: string) => boolean {
  const listed = rangesOf(allowed);
  const refused = rangesOf([...REFUSED_IPV4_RANGES, ...REFUSED_IPV6_RANGES]);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined) return false;
    if (listed[family].check(plain, family)) return true;
    // The machine gains and loses addresses while this runs.
    return !refused[family].check(plain, family) && !rangesOf(ownRanges())[family].check(plain, family);
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
