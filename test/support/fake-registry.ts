import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { ownCertificate } from '../../src/server/http/certificate.ts';

/** A registry that answers whatever a test wants, over TLS that the machine trusts, on all addresses. */
export interface FakeRegistry {
  /** As references name it, on loopback. */
  host: string;
  /** The same at an address of the machine that is not on loopback; undefined where it has none. */
  elsewhere: string | undefined;
  /** The paths of all calls, with the host that was called. */
  calls: string[];
  answer: (request: IncomingMessage, response: ServerResponse) => void;
  close(): Promise<void>;
}

export async function startFakeRegistry(): Promise<FakeRegistry> {
  const home = await mkdtemp(join(tmpdir(), 'fake-registry-'));
  const certificate = await ownCertificate(home);
  const server = createServer(certificate, (request, response) => {
    fake.calls.push(`${request.headers.host}${request.url}`);
    fake.answer(request, response);
  });
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const other = addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
  const hosts = ['127.0.0.1', other].flatMap((address) => (address === undefined ? [] : [`${address}:${port}`]));
  const trusted = hosts.map((host) => join('/etc/containers/certs.d', host));
  for (const folder of trusted) {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'ca.crt'), certificate.cert);
  }
  const fake: FakeRegistry = {
    host: `127.0.0.1:${port}`,
    elsewhere: other === undefined ? undefined : `${other}:${port}`,
    calls: [],
    answer: (_, response) => void response.writeHead(404).end(),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      for (const folder of [...trusted, home]) await rm(folder, { recursive: true, force: true });
    },
  };
  return fake;
}
