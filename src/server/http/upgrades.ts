import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { WebSocketServer, type WebSocket } from 'ws';
import { ApiError } from '../../shared/errors.ts';
import { http } from '../../shared/lib/http.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The connection of a request that asks for a WebSocket. */
    upgrading: { socket: Duplex; head: Buffer } | undefined;
  }
}

/**
 * A request for a WebSocket goes through the router like every other, so that it is admitted or refused like every other;
 * only then is its connection taken over. Requests for other protocols are answered as if they had not asked.
 */
export function takeUpgrades(server: FastifyInstance): void {
  const asked = new WeakMap<IncomingMessage, { socket: Duplex; head: Buffer }>();
  const raw = server.server as Server & { shouldUpgradeCallback: (request: IncomingMessage) => boolean };
  raw.shouldUpgradeCallback = ({ method, headers }) =>
    method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
  raw.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    const response = new http.ServerResponse(request);
    response.shouldKeepAlive = false; // nobody reads another request from it
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

/** A message of one byte a fragment would take a hundred times its bytes. */
const mostFragments = 2048;

/**
 * Makes WebSockets of the connections of admitted requests; throws where a request does not ask for one. Messages have at
 * most so many bytes, and nothing is compressed: a short message could become a very long one.
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
    sockets.handleUpgrade(raw, socket, head, (made) => open(made, socket));
  };
}
