import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';

/** A year. Subdomains are not ours to speak for. */
export const strictTransport = 'max-age=31536000';

/**
 * Whether browsers are told to come by HTTPS alone (RFC 6797). They apply it to a name and to all of its ports (and pass
 * over what comes from a mere address), so it is said only where the operator has given the service a name of its own:
 * in its address, or in a certificate.
 */
export function hasOwnName({ baseUrl, cert }: { baseUrl: string | undefined; cert: string | undefined }): boolean {
  if (baseUrl !== undefined) {
    const { protocol, hostname } = new URL(baseUrl);
    return protocol === 'https:' && isOwnName(hostname);
  }
  if (cert === undefined) return false;
  const names = new X509Certificate(cert).subjectAltName?.matchAll(/DNS:([^,\s]+)/g) ?? [];
  return Array.from(names, ([, name = '']) => name).some(isOwnName);
}

/** `localhost` is shared by everything that somebody develops on their machine, whatever a certificate says of it. */
export function isLocalhost(name: string): boolean {
  return /(^|\.)localhost\.?$/i.test(name);
}

function isOwnName(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) === 0 && !isLocalhost(name);
}
