import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { WebSocketServer, type WebSocket } from 'ws';
import { ApiError } from '../../shared/errors.ts';
import { http } from '../../shared/lib/http.ts';

declare module 'fastify' {
  interface FastifyRequest {
    upgrading: { socket: Duplex; head: Buffer } | undefined;
  }
}

/** Requests for a WebSocket pass the router first, so all are admitted alike. Other protocols are ignored. */
export function takeUpgrades(server: FastifyInstance, isForOther: (request: IncomingMessage) => boolean): void {
  const asked = new WeakMap<IncomingMessage, { socket: Duplex; head: Buffer }>();
  const raw = server.server as Server & { shouldUpgradeCallback: (request: IncomingMessage) => boolean };
  raw.shouldUpgradeCallback = (request) =>
    request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket' && !isForOther(request);
  raw.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    const response = new http.ServerResponse(request);
    response.shouldKeepAlive = false; // no further request is read from it
    response.assignSocket(socket as never);
    response.once('finish', () => socket.end());
    asked.set(request, { socket, head });
    server.routing(request, response);
  });
  server.decorateRequest('upgrading', {
    getter(this: FastifyRequest) {
      return asked.get(this.raw);
    },
  });
}

/** A message of one-byte fragments would take a hundred times its bytes. */
const mostFragments = 2048;

/**
 * Throws if the request is not for a WebSocket. Nothing is compressed: a short message could become a very long one.
 */
export function webSockets(
  mostBytes: number,
): (request: FastifyRequest, reply: FastifyReply, open: (socket: WebSocket, wire: Duplex) => void) => void {
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: mostBytes,
    maxFragments: mostFragments,
  });
  return ({ raw, upgrading }, reply, open) => {
    if (!upgrading) throw ApiError.ofHttp(426, 'invalid_format', 'upgrade', { upgrade: 'websocket' });
    const { socket, head } = upgrading;
    reply.hijack();
    reply.raw.detachSocket(socket as never);
    sockets.handleUpgrade(raw, socket, head, (made) => {
      keepAlive(made);
      open(made, socket);
    });
  };
}

/** Pings keep proxies from cutting silent connections, and detect peers that have vanished. */
const pingMs = 10_000;
const silentMs = 25_000;

function keepAlive(socket: WebSocket): void {
  let heardAt = performance.now();
  const onHeard = (): void => void (heardAt = performance.now());
  const pinging = setInterval(() => {
    if (performance.now() - heardAt > silentMs) socket.terminate();
    else socket.ping();
  }, pingMs).unref();
  socket
    .on('message', onHeard)
    .on('pong', onHeard)
    .once('close', () => clearInterval(pinging));
}
