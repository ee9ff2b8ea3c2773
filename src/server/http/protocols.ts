import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { TlsOptions } from 'node:tls';
import { http } from '../../shared/lib/http.ts';

/** How many requests may be open on one HTTP/2 connection. */
const settings = { maxConcurrentStreams: 100 };

/** As many as Node takes over HTTP/1.1. Beyond its own limit HTTP/2 breaks off the request, without an answer. */
const mostHeaders = 2000;

/** A connection of either version is closed after this long without a byte. */
const quietMs = 72_000;

/**
 * The server below the routes. Over TLS it speaks HTTP/2 with clients that ask for it in the handshake, and HTTP/1.1
 * with all others, on the same port. Requests and answers look the same in both, except for their sockets.
 */
export function protocols(
  tls: { key: string; cert: string } | undefined,
  times: Pick<ServerOptions, 'headersTimeout' | 'connectionsCheckingInterval'> & Pick<TlsOptions, 'handshakeTimeout'>,
): (handler: RequestListener) => Server {
  // The server itself answers malformed requests: Node would do so in its own format. A whole request has no time
  // limit. Streams are written in small pieces, and the kernel would hold each back until the last one is acknowledged,
  // 40 ms later; Node's own default is that it does not, except here, in the server that also speaks HTTP/2.
  const options = {
    ...times,
    requestTimeout: 0,
    keepAliveTimeout: quietMs,
    requireHostHeader: false,
    noDelay: true,
  };
  return (handler) => {
    if (!tls) return http.createServer(options, handler);
    const limits = { settings, maxHeaderListPairs: mostHeaders };
    const server = createSecureServer({ ...tls, ...options, ...limits, minVersion: 'TLSv1.2', allowHTTP1: true });
    server.on('session', (session) => session.setTimeout(quietMs, () => session.close()));
    server.on('request', handler as never);
    return server as unknown as Server;
  };
}
