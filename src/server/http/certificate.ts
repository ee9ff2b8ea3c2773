import { X509Certificate } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import { run } from '../../shared/lib/processes.ts';

export interface TlsFiles {
  key: string;
  cert: string;
}

const day = 24 * 60 * 60 * 1000;
/** Some clients refuse certificates that live longer, even trusted ones. */
const lifetimeDays = 825;
const renewBefore = 30 * day;

function certificateFiles(folder: string): TlsFiles {
  return { key: join(folder, 'tls', 'key.pem'), cert: join(folder, 'tls', 'cert.pem') };
}

/** Renewed before it expires, or if it lacks a name or address. `onRenewed` is for clients that trust the old one. */
export async function ownCertificate(
  folder: string,
  names: readonly string[] = [],
  onRenewed: () => void = () => {},
): Promise<TlsFiles> {
  const files = certificateFiles(folder);
  const isThere = existsSync(files.key) && existsSync(files.cert);
  if (!isThere || !serves(readFileSync(files.cert, 'utf8'), names)) {
    mkdirSync(dirname(files.key), { recursive: true, mode: 0o700 });
    const fresh = { key: `${files.key}.new`, cert: `${files.cert}.new` };
    await selfSigned(fresh, names);
    renameSync(fresh.key, files.key);
    renameSync(fresh.cert, files.cert);
    if (isThere) onRenewed();
  }
  return { key: readFileSync(files.key, 'utf8'), cert: readFileSync(files.cert, 'utf8') };
}

function serves(cert: string, names: readonly string[]): boolean {
  const certificate = new X509Certificate(cert);
  const isFor = (name: string): boolean =>
    (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined;
  return certificate.validToDate.getTime() >= Date.now() + renewBefore && names.every(isFor);
}

/** Also for this machine's names and addresses. */
async function selfSigned(files: TlsFiles, wanted: readonly string[]): Promise<void> {
  const strange = wanted.find((name) => isIP(name) === 0 && !/^[\w.-]{1,253}$/.test(name));
  if (strange !== undefined) throw new Error(`no certificate can be made for ${JSON.stringify(strange)}`);
  const named = wanted.filter((name) => isIP(name) === 0);
  const names = [...new Set([...named, 'localhost', hostname()])].map((name) => `DNS:${name}`);
  const own = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((one) => one.address));
  const numbered = wanted.filter((name) => isIP(name) !== 0);
  const all = new Set([...numbered, '127.0.0.1', '::1', ...own].map((address) => address.replace(/%.*$/, '')));
  const addresses = Array.from(all, (address) => `IP:${address}`);
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-sha256'];
  args.push('-days', String(lifetimeDays), '-subj', '/CN=Headrace', '-keyout', files.key, '-out', files.cert);
  args.push(
    '-addext',
    `subjectAltName=${[...names, ...addresses].join(',')}`,
    '-addext',
    'extendedKeyUsage=serverAuth',
  );
  const { status, stderr } = await run('openssl', args);
  if (status !== 0) throw new Error(`openssl could not make a certificate: ${stderr.toString().trim()}`);
  chmodSync(files.key, 0o600);
}
