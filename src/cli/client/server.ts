import type { ConnectionOptions, PeerCertificate } from 'node:tls';
import { isLoopback } from '../../shared/lib/networks.ts';
import { Failure } from './failure.ts';

/** A server, and how its certificate is verified. */
export interface ServerAddress {
  /** Without a slash at the end. */
  url: string;
  /** Certificates of authorities in PEM form; without them those of the machine. */
  ca?: string | undefined;
  pinned?: Pinned | undefined;
}

/** The one certificate that is accepted, in PEM form: a person has compared its fingerprint (SHA-256). */
export interface Pinned {
  certificate: string;
  fingerprint: string;
}

/** Only TLS, except for a server on this machine. */
export function readAddress(text: string): string {
  const whole = /^https?:\/\//i.test(text) ? text : `https://${text}`;
  if (!URL.canParse(whole)) throw new Failure('invalid', `${JSON.stringify(text)} is not the address of a server.`);
  const { protocol, hostname, username, password, origin, pathname } = new URL(whole);
  if (username !== '' || password !== '')
    throw new Failure('invalid', 'The address of a server has no credentials in it. Leave them out.');
  if (protocol === 'http:' && hostname !== 'localhost' && !isLoopback(hostname.replaceAll(/[[\]]/g, '')))
    throw new Failure('invalid', `Headrace is served over TLS alone. Use https://${hostname}.`);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

/**
 * A pinned certificate is its own authority, and no other certificate is accepted, not even one that it issued. Its
 * names are not compared: the fingerprint proves more.
 */
export function trustOf({ ca, pinned }: ServerAddress): ConnectionOptions {
  if (!pinned) return { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
  const checkServerIdentity = (_: string, { fingerprint256 }: PeerCertificate): Error | undefined =>
    fingerprint256 === pinned.fingerprint
      ? undefined
      : Object.assign(new Error('another certificate'), { code: 'OTHER_CERTIFICATE' });
  return { rejectUnauthorized: true, ca: pinned.certificate, allowPartialTrustChain: true, checkServerIdentity };
}
