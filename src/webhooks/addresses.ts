import { BlockList, isIP } from 'node:net';

/**
 * Which addresses may be called. Anybody with an account names the receivers, so without this they could have the server
 * speak to whatever it can reach and they cannot: itself, its neighbours, the metadata service of its cloud.
 *
 * Only what is public is called. For IPv4 that is everything but the blocks that the registries keep for other uses; for
 * IPv6 only what is given out for the internet at large, less what is for documentation or carries an IPv4 address that
 * somebody on the way would call instead.
 */
const reservedV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
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
const publicV6 = ['2000::/3'];
const reservedV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

/** Judges addresses as sockets name them. `allowed` are the ranges, in CIDR form, that the operator lets through. */
export function addressJudge(allowed: readonly string[]): (address: string) => boolean {
  const listed = rangesOf(allowed);
  const reserved = rangesOf([...reservedV4, ...reservedV6]);
  const open = rangesOf(publicV6);
  return (address) => {
    const { family, plain } = unmapped(address);
    if (family === undefined) return false;
    if (listed.check(plain, family)) return true;
    if (reserved.check(plain, family)) return false;
    return family === 'ipv4' || open.check(plain, family);
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

function rangesOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [net = '', prefix = ''] = range.split('/');
    list.addSubnet(net, Number(prefix), isIP(net) === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}
