import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { isIP } from 'node:net';
import tls from 'node:tls';
import { Failure } from './failure.ts';
import { Transport } from './transport.ts';
import type { Pinned, ServerAddress } from './server.ts';

/** The request carries no credentials. */
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

/** The certificate that a server shows, from any issuer. Nothing is sent to the server. */
export async function certificateOf(url: string): Promise<Pinned> {
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const servername = isIP(host) === 0 ? { servername: host } : {};
  const socket = tls.connect({ host, port: Number(port || 443), rejectUnauthorized: false, ...servername });
  socket.setTimeout(15_000, () => socket.destroy(new Error('it does not answer')));
  try {
    await once(socket, 'secureConnect');
    const { raw, fingerprint256: fingerprint } = socket.getPeerCertificate();
    return { certificate: new X509Certificate(raw).toString(), fingerprint };
  } catch (error) {
    throw new Failure('unreachable', `Cannot reach ${url}.`, (error as Error).message);
  } finally {
    socket.destroy();
  }
}
