import type { ConnectionOptions, PeerCertificate } from 'node:tls';
import { isLoopback } from '../../shared/lib/networks.ts';
import { Failure } from './failure.ts';

export interface ServerAddress {
  /** Without a trailing slash. */
  url: string;
  /** Authorities in PEM form. The default are the machine's. */
  ca?: string | undefined;
  pinned?: Pinned | undefined;
}

/** The only accepted certificate, in PEM form. A user has compared its fingerprint (SHA-256). */
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
    throw new Failure('invalid', 'The address of a server must not contain credentials. Remove them.');
  if (protocol === 'http:' && hostname !== 'localhost' && !isLoopback(hostname.replaceAll(/[[\]]/g, '')))
    throw new Failure('invalid', `Headrace only serves TLS. Use https://${hostname}.`);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

/** A pinned certificate is trusted only for itself. Its names are not checked: the fingerprint proves more. */
export function trustOf({ ca, pinned }: ServerAddress): ConnectionOptions {
  if (!pinned) return { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
  const checkServerIdentity = (_: string, { fingerprint256 }: PeerCertificate): Error | undefined =>
    fingerprint256 === pinned.fingerprint
      ? undefined
      : Object.assign(new Error('another certificate'), { code: 'OTHER_CERTIFICATE' });
  return { rejectUnauthorized: true, ca: pinned.certificate, allowPartialTrustChain: true, checkServerIdentity };
}
