import { hostname } from 'node:os';

/** Where people find a server that listens on `bound`: where its operator says, or else there. */
export function publicAddress(baseUrl: string | undefined, bound: string): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  // To listen on all addresses is to have none that could be called; the certificate also has the machine's name.
  return bound.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, `$1${hostname()}`);
}
