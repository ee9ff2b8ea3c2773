import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';

/** A year, without subdomains: they may not belong to the service. */
export const strictTransport = 'max-age=31536000';

/** RFC 6797 applies to a name with all its ports. So it is sent only if the operator named the service. */
export function hasOwnName({ baseUrl, cert }: { baseUrl: string | undefined; cert: string | undefined }): boolean {
  if (baseUrl !== undefined) {
    const { protocol, hostname } = new URL(baseUrl);
    return protocol === 'https:' && isOwnName(hostname);
  }
  if (cert === undefined) return false;
  const names = new X509Certificate(cert).subjectAltName?.matchAll(/DNS:([^,\s]+)/g) ?? [];
  return Array.from(names, ([, name = '']) => name).some(isOwnName);
}

/** Everything developed on a machine shares `localhost`, whatever names a certificate has. */
export function isLocalhost(name: string): boolean {
  return /(^|\.)localhost\.?$/i.test(name);
}

function isOwnName(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) === 0 && !isLocalhost(name);
}
