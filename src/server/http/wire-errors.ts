import type { IncomingMessage, Server } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import { Duplex } from 'node:stream';
import { ApiError } from '../../shared/errors.ts';
import { http } from '../../shared/lib/http.ts';
import { unreadableRequest } from './socket-answers.ts';
import type { Connections } from './connections.ts';

const readingMs = 2000;

/**
 * Answers requests that Node's parser refuses. It reports an error per further byte, so answered sockets are
 * remembered. Further bytes are read and dropped: closing with unread bytes would discard the response.
 */
export function wireErrors(
  connections: () => Connections,
  headers: Record<string, string>,
): (code: string, socket: Duplex) => void {
  const answered = new WeakSet<Duplex>();
  return (code, socket) => {
    if (answered.has(socket)) return;
    answered.add(socket);
    // Before the handshake no response is possible, and a client that timed out needs none.
    if (!socket.writable || !code.startsWith('HPE_')) {
      socket.destroy();
      return;
    }
    const { request, response } = connections().underWay(socket) ?? {};
    const isWaited = response !== undefined && !response.writableFinished;
    if (isWaited && (request?.complete || response.headersSent)) {
      // The bytes came after a valid request, which is answered before the connection ends.
      response.once('close', () => endWith(socket));
    } else {
      endWith(socket, unreadableRequest(code, headers));
    }
  };
}

/** Ends a connection when the client has read the response, or had time to. */
function endWith(socket: Duplex, word = ''): void {
  const timer = setTimeout(() => socket.destroy(), readingMs).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.end(word);
}

/** Handles the requests that Node would itself answer, drop or ignore. */
export function routeOddRequests(server: Server): void {
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket: Duplex | Http2ServerResponse) => {
    if (!(socket instanceof Duplex)) {
      socket.stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    socket.on('error', () => {}).resume();
    endWith(socket, unreadableRequest('CONNECT'));
  });
}

const hostForm = /^(\[[\da-f:.]+\]|[^\s/?#@\\:[\]]+)(:\d*)?$/i;
const continuing = /(?:^|\W)100-continue(?:$|\W)/i;

/** Errors in the head, except its target (RFC 9112 3.2, RFC 9110 10.1.1). */
export function headCheck(): (request: IncomingMessage) => ApiError | undefined {
  // Nearly all requests have the same host as the previous one.
  let good: string | undefined;
  return ({ headers, rawHeaders, httpVersion }) => {
    const { expect, ':authority': authority, host = authority as string | undefined } = headers; // HTTP/2 has both
    if (httpVersion === '2.0' ? authority !== undefined && host !== authority : countHosts(rawHeaders) > 1)
      return ApiError.ofHttp(400, 'invalid_format', 'host');
    if (httpVersion === '2.0' && sizeOf(rawHeaders) > http.maxHeaderSize)
      return ApiError.ofHttp(431, 'invalid_format', 'header');
    if (expect !== undefined && !continuing.test(expect)) return ApiError.ofHttp(417, 'invalid_format', 'expect');
    if (host === good && host !== undefined) return undefined;
    if (host === undefined && httpVersion === '1.0') return undefined; // monitors still speak HTTP/1.0
    if (host === undefined || host === '') return ApiError.ofHttp(400, 'is_blank', 'host');
    if (!hostForm.test(host) || !URL.canParse(`https://${host}`)) {
      return ApiError.ofHttp(400, 'invalid_format', 'host');
    }
    good = host;
    return undefined;
  };
}

/** Two hosts may mean one thing to a proxy and another here (RFC 9112 3.2). */
function countHosts(rawHeaders: readonly string[]): number {
  return rawHeaders.filter((name, at) => at % 2 === 0 && name.length === 4 && name.toLowerCase() === 'host').length;
}

/** Node enforces its limit only over HTTP/1.1. */
function sizeOf(rawHeaders: readonly string[]): number {
  return rawHeaders.reduce((sum, text) => sum + text.length + 2, 0);
}
