import { hostname } from 'node:os';

/** The public address of a server that listens on `bound`: the configured one, or else `bound`. */
export function publicUrl(baseUrl: string | undefined, bound: string): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  // A server on all addresses has none that can be called; the certificate also has the machine's name.
  return bound.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, `$1${hostname()}`);
}
