import type { FastifyBaseLogger } from 'fastify';
import type { AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import { hostIn, portIn } from '../shared/domain/public-url.ts';
import type { ApiOrder } from '../shared/protocol/index.ts';
import { isSocketPath, type Config } from '../shared/config.ts';
import { ownCertificate, type TlsFiles } from './http/certificate.ts';

const renewedCertificate =
  'the certificate in the data folder was renewed: replace every copy of tls/cert.pem, for example on remote runners';

function namesOf({ base_url: baseUrl, artifact_url: artifactUrl, host }: Config): string[] {
  const own = isSocketPath(host) || ['0.0.0.0', '::'].includes(host) ? [] : [host];
  const named = [baseUrl, artifactUrl].filter((url) => url !== undefined);
  return [...named.map((url) => hostIn(new URL(url)).replace(/\.$/, '')), ...own];
}

export async function tlsFor(config: Config, log: FastifyBaseLogger): Promise<TlsFiles | undefined> {
  if (config.tls === 'off') return undefined;
  if (config.tls_key === undefined || config.tls_cert === undefined) {
    const names = namesOf(config);
    return ownCertificate(config.data_dir, names, () => log.warn(renewedCertificate));
  }
  return { key: readFileSync(config.tls_key, 'utf8'), cert: readFileSync(config.tls_cert, 'utf8') };
}

/** How builds reach the API: at the public address, which leads to where the server listens. */
export function apiFor(
  { base_url: baseUrl, tls_cert: cert }: Config,
  { tls, address, origin }: { tls: TlsFiles | undefined; address: string; origin: string },
): ApiOrder {
  const url = new URL(origin);
  // Without TLS, only the proxy in front of the server speaks HTTPS.
  const isBehindProxy = baseUrl !== undefined && (tls === undefined || address.startsWith('unix:'));
  const at = isBehindProxy ? url : new URL(address.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, '//127.0.0.1'));
  return {
    url: origin,
    listens: { host: hostIn(at), port: portIn(at) },
    ...(tls && cert === undefined && { certificate: tls.cert }),
  };
}

export function addressOf(config: Config, bound: AddressInfo | string | null): string {
  if (typeof bound !== 'object' || bound === null) return `unix:${config.host}`;
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return `${config.tls === 'off' ? 'http' : 'https'}://${host}:${bound.port}`;
}
