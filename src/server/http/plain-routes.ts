import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { drainBody } from './unread-bodies.ts';
import { webSockets } from './upgrades.ts';
import { withRawBodies } from './uploads.ts';

/** How a route's callers prove who they are. Every route declares it. A route without it is not served. */
export type Proof =
  /** An API key with Basic, or a token. */
  | 'credentials'
  /** A runner's token, or a connection over the socket in the data folder. */
  | 'runner'
  | 'client'
  /** The called hook's secret, sent itself or used for a signature over the body. */
  | 'signature'
  /** A browser's cookie, and for changes the form key of its page. */
  | 'session'
  /** The metrics token, or a connection from this machine. */
  | 'operator'
  /** The route is public. */
  | 'none';

declare module 'fastify' {
  interface FastifyContextConfig {
    provenBy?: Proof;
  }
}

export function demandProofs(server: FastifyInstance): void {
  server.addHook('onRoute', ({ method, url, config }) => {
    if (config?.provenBy === undefined)
      throw new Error(`${String(method)} ${url} does not declare how its callers are authenticated`);
  });
}

export type Head = Pick<FastifyRequest, 'id' | 'headers' | 'params' | 'query' | 'raw' | 'routeOptions'>;

/** A route outside the API's envelope, with authentication and formats of its own. */
export interface PlainRoute<Admitted, Body = unknown> {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** Called once the caller is admitted. Without it the handler may read `head.raw`. */
  body?(request: IncomingMessage): Promise<Body>;
  handle(call: PlainCall<Admitted, Body>): Promise<PlainAnswer>;
}

/** A route whose connection becomes a WebSocket once its caller is admitted. */
export interface SocketRoute<Admitted> {
  path: string;
  mostBytes: number;
  /** Throws if the caller may not have another connection. `open` follows at once. */
  demandRoom(admitted: Admitted): void;
  /** `wire` carries the bytes of the WebSocket. */
  open(socket: WebSocket, admitted: Admitted, wire: Duplex, head: Head): void;
}

export interface PlainCall<Admitted, Body = unknown> {
  head: Head;
  admitted: Admitted;
  body: Body;
  signal: AbortSignal;
}

export interface PlainAnswer {
  status?: number;
  headers?: Record<string, string>;
  content: object | Readable;
}

export interface PlainRoutes<Admitted> {
  provenBy: Proof;
  /** Checks the head before the body is read. A thrown error is the response. */
  admit(head: Head, reply: Pick<FastifyReply, 'header'>): Promise<Admitted>;
  routes: readonly PlainRoute<Admitted>[];
  sockets?: readonly SocketRoute<Admitted>[];
  /** Writes an error in the callers' format. Undefined selects the API's own. */
  refuse?(error: unknown, head: Head): PlainAnswer | undefined;
}

export function addPlainRoutes<Admitted>(server: FastifyInstance, group: PlainRoutes<Admitted>): void {
  withRawBodies(server, (scope) => {
    scope.setErrorHandler(async (error, request, reply) => {
      const answer = group.refuse?.(error, request);
      if (!answer) throw error;
      await drainBody(request, reply);
      return send(reply, answer);
    });
    scope.addHook('onRequest', async (request, reply) => {
      request.admitted = await group.admit(request, reply);
    });
    for (const route of group.routes) {
      scope.route({
        method: route.method,
        url: route.path,
        config: { provenBy: group.provenBy },
        async handler(request, reply) {
          const call = { head: request, admitted: request.admitted as Admitted, signal: whileConnected(reply) };
          const answer = await route.handle({ ...call, body: await route.body?.(request.raw) });
          await drainBody(request, reply);
          return send(reply, answer);
        },
      });
    }
    for (const route of group.sockets ?? []) {
      const take = webSockets(route.mostBytes);
      scope.route({
        method: 'GET',
        url: route.path,
        config: { provenBy: group.provenBy },
        async handler(request, reply) {
          const admitted = request.admitted as Admitted;
          route.demandRoom(admitted);
          take(request, reply, (socket, wire) => route.open(socket, admitted, wire, request));
        },
      });
    }
  });
}

function send(reply: FastifyReply, { status = 200, headers = {}, content }: PlainAnswer): FastifyReply {
  return reply.status(status).headers(headers).send(content);
}

/** Created once: an error per request, most already answered, would cost more than everything else. */
const hungUp = new Error('the caller hung up');

/** Ends a held request when the caller disconnects. */
export function whileConnected(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort(hungUp));
  return gone.signal;
}
