import { promises as dns, type LookupAddress } from 'node:dns';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { codeOf } from './error-code.ts';
import { createLimiter } from './limiter.ts';

export type Resolve = (host: string, signal: AbortSignal) => Promise<LookupAddress[]>;

/** The system's resolver uses one of the four threads that Node also needs for files and hashes. */
const mostBySystem = 2;

/**
 * Asks the name servers directly: with the system's resolver, a few names without responses would block all of Node's
 * threads. The system still resolves short names, the hosts file, and names that are unknown there, a limited number at
 * a time. `servers` replaces the system's name servers.
 */
export function createResolve(servers?: string[]): Resolve {
  const slots = createLimiter(mostBySystem);
  const bySystem = async (host: string, signal: AbortSignal): Promise<LookupAddress[]> => {
    const release = await slots.take('system', signal);
    return dns.lookup(host, { all: true }).finally(release);
  };
  return async (host, signal) => {
    const version = isIP(host);
    if (version !== 0) return [{ address: host, family: version }];
    if (!host.includes('.') || (await isInHostsFile(host))) return bySystem(host, signal);
    const resolver = new dns.Resolver({ timeout: 2000, tries: 2 });
    if (servers) resolver.setServers(servers);
    signal.addEventListener('abort', () => resolver.cancel(), { once: true });
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = [
      ...(four.status === 'fulfilled' ? four.value : []).map((address) => ({ address, family: 4 })),
      ...(six.status === 'fulfilled' ? six.value : []).map((address) => ({ address, family: 6 })),
    ];
    if (found.length > 0) return found;
    signal.throwIfAborted();
    const silent = [four, six].some((result) => result.status === 'rejected' && codeOf(result.reason) === 'ETIMEOUT');
    if (silent) throw new Error('the name servers do not respond');
    return bySystem(host, signal);
  };
}

async function isInHostsFile(host: string): Promise<boolean> {
  const text = await readFile('/etc/hosts', 'utf8').catch(() => '');
  return text.toLowerCase().split(/\s+/).includes(host);
}
