import { X509Certificate } from 'node:crypto';
import tls from 'node:tls';
import { Failure } from './failure.ts';
import { Transport } from './transport.ts';
import type { ServerAddress } from './server.ts';

export interface SeenCertificate {
  certificate: string;
  /** SHA-256, in pairs of digits. */
  fingerprint: string;
}

/** Whether the server's certificate is trusted, asked with a request that carries no credentials. */
export async function isTrusted(server: ServerAddress): Promise<boolean> {
  const transport = new Transport(server);
  try {
    await transport.textOf(await transport.open('/ping'));
    return true;
  } catch (error) {
    if (error instanceof Failure && error.kind === 'untrusted') return false;
    throw error;
  } finally {
    transport.close();
  }
}

/** The certificate that a server shows, whoever issued it. Nothing is sent to it. */
export async function certificateOf({ url }: ServerAddress): Promise<SeenCertificate> {
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const { promise, resolve, reject } = Promise.withResolvers<SeenCertificate>();
  const servername = /^[\d.:]+$/.test(host) || host.includes(':') ? {} : { servername: host };
  const socket = tls.connect({
    host,
    port: Number(port === '' ? 443 : port),
    rejectUnauthorized: false,
    ...servername,
  });
  socket.setTimeout(15_000, () => socket.destroy(new Error('it does not answer')));
  socket.once('secureConnect', () => {
    const { raw } = socket.getPeerCertificate();
    const { fingerprint256: fingerprint } = new X509Certificate(raw);
    resolve({ certificate: new X509Certificate(raw).toString(), fingerprint });
    socket.end();
  });
  socket.once('error', (error) => reject(new Failure('unreachable', `Cannot reach ${url}.`, error.message)));
  return promise;
}
