import { X509Certificate } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import { run } from '../lib/processes.ts';

export interface TlsFiles {
  key: string;
  cert: string;
}

const day = 24 * 60 * 60 * 1000;
/** Longer-lived certificates are refused by some clients even where they are trusted. */
const lifetimeDays = 825;
const renewBefore = 30 * day;

function certificateFiles(folder: string): TlsFiles {
  return { key: join(folder, 'tls', 'key.pem'), cert: join(folder, 'tls', 'cert.pem') };
}

/** The certificate of the data folder: made at the first start, and anew when it is about to run out. */
export async function ownCertificate(folder: string): Promise<TlsFiles> {
  const files = certificateFiles(folder);
  if (!existsSync(files.key) || !existsSync(files.cert) || runsOut(readFileSync(files.cert, 'utf8'))) {
    mkdirSync(dirname(files.key), { recursive: true, mode: 0o700 });
    const fresh = { key: `${files.key}.new`, cert: `${files.cert}.new` };
    await selfSigned(fresh);
    renameSync(fresh.key, files.key);
    renameSync(fresh.cert, files.cert);
  }
  return { key: readFileSync(files.key, 'utf8'), cert: readFileSync(files.cert, 'utf8') };
}

function runsOut(cert: string): boolean {
  return new X509Certificate(cert).validToDate.getTime() < Date.now() + renewBefore;
}

/** For this machine's names and addresses. */
async function selfSigned(files: TlsFiles): Promise<void> {
  const names = [...new Set(['localhost', hostname()])].map((name) => `DNS:${name}`);
  const own = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((one) => one.address));
  const addresses = [...new Set(['127.0.0.1', '::1', ...own])].map((address) => `IP:${address.replace(/%.*$/, '')}`);
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
