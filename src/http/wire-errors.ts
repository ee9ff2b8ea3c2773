import type { IncomingMessage, Server } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import { Duplex } from 'node:stream';
import { ApiError } from '../errors.ts';
import { unreadableRequest } from './bare-answers.ts';
import type { Connections } from './connections.ts';

/** How long somebody has to hear an answer before the connection ends, whatever they are still sending. */
const hearingMs = 2000;

/**
 * Answers what Node's parser refuses. Its errors come with every further byte, so who was answered is remembered. What is
 * still coming is read and forgotten: closed with something unread, a connection takes the answer down with it.
 */
export function wireErrors(
  connections: () => Connections,
  headers: Record<string, string>,
): (code: string, socket: Duplex) => void {
  const answered = new WeakSet<Duplex>();
  return (code, socket) => {
    if (answered.has(socket)) return;
    answered.add(socket);
    // Where there was no handshake nothing can be said, and to somebody who has gone silent there is nothing to say.
    if (!socket.writable || !code.startsWith('HPE_')) {
      socket.destroy();
      return;
    }
    const { request, response } = connections().underWay(socket) ?? {};
    const isWaited = response !== undefined && !response.writableFinished;
    if (isWaited && (request?.complete || response.headersSent)) {
      // It came behind a request that is fine: that is answered, and then it is over.
      response.once('close', () => sayLast(socket));
    } else {
      sayLast(socket, unreadableRequest(code, headers));
    }
  };
}

/** Ends a connection once the other side has heard the last word, or had the time to. */
function sayLast(socket: Duplex, word = ''): void {
  const timer = setTimeout(() => socket.destroy(), hearingMs).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.end(word);
}

/** What Node would answer by itself, without a word, or not at all, comes to the router like everything else. */
export function takeOddRequests(server: Server): void {
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket: Duplex | Http2ServerResponse) => {
    if (!(socket instanceof Duplex)) {
      socket.stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    socket.on('error', () => {}).resume();
    sayLast(socket, unreadableRequest('CONNECT'));
  });
}

const hostForm = /^(\[[\da-f:.]+\]|[^\s/?#@\\:[\]]+)(:\d*)?$/i;
const continuing = /(?:^|\W)100-continue(?:$|\W)/i;

/** Finds what is wrong with the head of a request, apart from what it asks for (RFC 9112 3.2, RFC 9110 10.1.1). */
export function headJudge(): (request: IncomingMessage) => ApiError | undefined {
  // Nearly all requests name the same host as the one before.
  let good: string | undefined;
  return ({ headers, httpVersion }) => {
    const { expect, host = headers[':authority'] as string | undefined } = headers; // HTTP/2 says it so
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
