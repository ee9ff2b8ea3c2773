import { promises as dns, type LookupAddress } from 'node:dns';
import { isIP } from 'node:net';

/** Finds the addresses of a host. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<LookupAddress[]>;

/**
 * Asks the name servers directly, because the system's own resolver works in the few threads that Node has for files
 * and hashes too: a handful of names whose servers never answer would stop the whole program. What only the system
 * knows (short names, the hosts file) is still found: a name that does not exist elsewhere is looked up there.
 */
export const resolveHost: Resolve = async (host, signal) => {
  const version = isIP(host);
  if (version !== 0) return [{ address: host, family: version }];
  const bySystem = (): Promise<LookupAddress[]> => dns.lookup(host, { all: true });
  if (!host.includes('.')) return bySystem();
  const resolver = new dns.Resolver({ timeout: 2000, tries: 2 });
  signal.addEventListener('abort', () => resolver.cancel(), { once: true });
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const found = [
    ...(four.status === 'fulfilled' ? four.value : []).map((address) => ({ address, family: 4 })),
    ...(six.status === 'fulfilled' ? six.value : []).map((address) => ({ address, family: 6 })),
  ];
  if (found.length > 0) return found;
  signal.throwIfAborted();
  const answers = [four, six].map((result) => (result.status === 'rejected' ? codeOf(result.reason) : ''));
  return answers.every((code) => code === 'ETIMEOUT') ? Promise.reject(new NameServersSilentError()) : bySystem();
};

export class NameServersSilentError extends Error {
  constructor() {
    super('the name servers do not answer');
    this.name = 'NameServersSilentError';
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
