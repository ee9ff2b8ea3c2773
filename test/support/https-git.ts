import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownCertificate } from '../../src/server/http/certificate.ts';

/** A public git host: git's own http-backend behind HTTPS on a loopback port, open to everybody. */
export interface HttpsGitHost {
  /** The folder of its repositories. */
  folder: string;
  port: number;
  /** The certificate authority to trust. */
  ca: string;
  /** For instance `url('lib.git')`; also with a name and a password. */
  url(repository: string, credentials?: string): string;
  /** Every call so far: method, path, and the headers that identify the caller. */
  calls: { method: string; path: string; headers: IncomingMessage['headers'] }[];
  /** Answers instead of git, if it returns true. */
  instead: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>;
  close(): Promise<void>;
}

export async function startHttpsGitHost({ name = 'localhost' } = {}): Promise<HttpsGitHost> {
  const home = await mkdtemp(join(tmpdir(), 'https-git-'));
  const folder = join(home, 'repositories');
  await mkdir(folder);
  const certificate = await ownCertificate(home, [name]);
  const server = createServer(certificate, (request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const host: HttpsGitHost = {
    folder,
    port,
    ca: certificate.cert,
    url: (repository, credentials) =>
      `https://${credentials === undefined ? '' : `${credentials}@`}${name}:${port}/${repository}`,
    calls: [],
    instead: () => false,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await rm(home, { recursive: true, force: true });
    },
  };
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    host.calls.push({ method, path: url, headers });
    request.on('error', () => {});
    response.on('error', () => {});
    if (await host.instead(request, response)) return;
    const [path = '', query = ''] = url.split('?');
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        GIT_CONFIG_GLOBAL: '/dev/null',
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: method,
        CONTENT_TYPE: headers['content-type'] ?? '',
        ...(headers['git-protocol'] === undefined ? {} : { GIT_PROTOCOL: String(headers['git-protocol']) }),
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    backend.stdin.on('error', () => {});
    request.pipe(backend.stdin);
    let head = '';
    let isHead = true;
    for await (const chunk of backend.stdout as AsyncIterable<Buffer>) {
      if (!isHead) {
        response.write(chunk);
        continue;
      }
      head += chunk.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) continue;
      isHead = false;
      const lines = head.slice(0, end).split('\r\n');
      const fields = lines.map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string]);
      const status = fields.find(([name]) => name === 'Status')?.[1] ?? '200';
      response.writeHead(Number.parseInt(status, 10), Object.fromEntries(fields.filter(([name]) => name !== 'Status')));
      response.write(Buffer.from(head.slice(end + 4), 'latin1'));
    }
    response.end();
  }
  return host;
}
