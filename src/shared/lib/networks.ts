/** A client with IPv6 can choose among a whole network, so addresses with the same first 64 bits count as one. */
export function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address.replace(/^::ffff:/i, '');
  const [head = '', tail] = address.toLowerCase().split('::');
  const groups = head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length;
  const whole = [...groups, ...Array.from({ length: missing }, () => '0'), ...(tail?.split(':') ?? [])];
  return `${whole.slice(0, 4).join(':')}::/64`;
}

/** Runners pass on the calls of builds from this address, so that no build counts as a program of the machine. */
export const addressOfBuilds = '127.72.0.1';

export function isOfBuild(address: string | undefined): boolean {
  return address?.replace(/^::ffff:/i, '') === addressOfBuilds;
}

/** Except the address of builds. */
export function isLoopback(address: string): boolean {
  if (isOfBuild(address)) return false;
  return /^(::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/i.test(address);
}
