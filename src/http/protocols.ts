import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createSecureServer } from 'node:http2';

/** How much may be asked on one connection over HTTP/2 before the first of it is answered. */
const settings = { maxConcurrentStreams: 100 };

/** A connection on which nothing was said for so long is closed, whichever version is spoken on it. */
const quietMs = 72_000;

/**
 * The server below the routes. Over TLS it speaks HTTP/2 with those who ask for it in the handshake, and HTTP/1.1 with
 * everybody else, on the same port. Requests and answers look the same in both, but for their sockets.
 */
export function protocols(
  tls: { key: string; cert: string } | undefined,
  times: Pick<ServerOptions, 'headersTimeout' | 'connectionsCheckingInterval'>,
): (handler: RequestListener) => Server {
  // What is wrong with a request, it is told by us: Node would do so in a form of its own. There is no limit to how long
  // a whole request may take.
  const options = { ...times, requestTimeout: 0, keepAliveTimeout: quietMs, requireHostHeader: false };
  return (handler) => {
    if (!tls) return createServer(options, handler);
    const server = createSecureServer({ ...tls, ...options, minVersion: 'TLSv1.2', allowHTTP1: true, settings });
    server.on('session', (session) => session.setTimeout(quietMs, () => session.close()));
    server.on('request', handler as never);
    return server as unknown as Server;
  };
}
