import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';

/** Whose certificates are taken where this program calls others: those of the machine, and of the operator's file. */
export interface TlsTrust {
  /** For connections of this process. */
  context(): SecureContext;
  /** All of them as PEM, for other programs; undefined where the machine's own are all: programs find these. */
  authorities(): string | undefined;
  /** Those of the file, as PEM. */
  added: string;
}

/** Nothing of the machine is read before it is needed: that takes a tenth of a second. */
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

/** Throws where it cannot be read, or has no certificate or a wrong one. */
export function readCertificates(file: string): string {
  const text = readFileSync(file, 'utf8');
  const certificates = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (certificates.length === 0) throw new Error('it holds no certificate');
  return certificates.map((one) => new X509Certificate(one).toString()).join('\n');
}
