import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  url: URL;
  headers: IncomingHttpHeaders;
}

/** A web application that browsers are sent to. It has another host, because cookies do not distinguish ports. */
export interface Receiver {
  address: string;
  received: Received[];
  /** Sets the answer for a path, in addition to its plain page. */
  serve(path: string, type: string, body: string): void;
  close(): Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const pages = new Map<string, { type: string; body: string }>();
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', address);
    if (url.pathname !== '/favicon.ico') received.push({ url, headers: request.headers });
    const { type, body } = pages.get(url.pathname) ?? { type: 'text/html', body: '<h1>The application</h1>' };
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://localhost:${(server.address() as AddressInfo).port}`;
  return {
    address,
    received,
    serve: (path, type, body) => void pages.set(path, { type, body }),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
