import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { TlsOptions } from 'node:tls';
import { http } from '../../shared/lib/http.ts';

const settings = { maxConcurrentStreams: 100 };

/** Node's limit over HTTP/1.1. Beyond its own, HTTP/2 aborts a request without a response. */
const mostHeaders = 2000;

/** A connection of either version is closed after this long without a byte. */
const quietMs = 72_000;

/** Over TLS, clients choose HTTP/2 or HTTP/1.1 in the handshake. Requests differ only in their sockets. */
export function protocols(
  tls: { key: string; cert: string } | undefined,
  times: Pick<ServerOptions, 'headersTimeout' | 'connectionsCheckingInterval'> & Pick<TlsOptions, 'handshakeTimeout'>,
): (handler: RequestListener) => Server {
  // Malformed requests are answered in our format, not in Node's. A whole request has no time limit. `noDelay`: streams
  // have small pieces, which the kernel would hold back for 40 ms. Node sets it by default, except in this server that
  // also speaks HTTP/2.
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
