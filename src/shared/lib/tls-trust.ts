import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';

/** Trusted certificates for outgoing calls: the machine's, and those of the operator's file. */
export interface TlsTrust {
  context(): SecureContext;
  /** As PEM, for other programs. Undefined if only the machine's are trusted: programs find these. */
  authorities(): string | undefined;
  added: string;
}

/** Reads the machine's certificates on first use, because that takes a tenth of a second. */
export function createTlsTrust(file?: string): TlsTrust {
  const added = file === undefined ? '' : readCertificates(file);
  let all: string[] | undefined;
  let context: SecureContext | undefined;
  const list = (): string[] =>
    (all ??= [...new Set([...getCACertificates('default'), ...getCACertificates('system'), added])].filter(Boolean));
  return {
    added,
    context: () => (context ??= createSecureContext({ ca: list() })),
    authorities: () => (added === '' ? undefined : list().join('\n')),
  };
}

/** Throws if the file is unreadable, has no certificate, or a wrong one. */
export function readCertificates(file: string): string {
  const text = readFileSync(file, 'utf8');
  const certificates = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (certificates.length === 0) throw new Error('it contains no certificate');
  return certificates.map((one) => new X509Certificate(one).toString()).join('\n');
}
