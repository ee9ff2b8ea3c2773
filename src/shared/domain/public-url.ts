import { hostname } from 'node:os';

export function publicUrl(baseUrl: string | undefined, bound: string): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  // An address such as 0.0.0.0 cannot be called. The certificate also has the machine's name.
  return bound.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, `$1${hostname()}`);
}

/** Without the brackets of IPv6. */
export function hostIn({ hostname: host }: URL): string {
  return host.replaceAll(/[[\]]/g, '');
}

export function portIn({ port, protocol }: URL): number {
  return Number(port) || (protocol === 'https:' ? 443 : 80);
}
