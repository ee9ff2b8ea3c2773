import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { drainBody } from './unread-bodies.ts';
import { webSockets } from './upgrades.ts';
import { withRawBodies } from './uploads.ts';

/** How callers of a route are authenticated. Every route declares it; a route without it is not served. */
export type Proof =
  /** Credentials of the API: a key with Basic, or a token. */
  | 'credentials'
  /** The token of a runner, or a connection over the socket in the data folder. */
  | 'runner'
  /** The secret of an application. */
  | 'client'
  /** The secret of the called hook, by a signature over the body or by the secret itself. */
  | 'signature'
  /** The cookie of a browser, and for changes the form key of its page. */
  | 'session'
  /** The metrics token, or a connection from this machine. */
  | 'operator'
  /** Nothing: the route is public. */
  | 'none';

declare module 'fastify' {
  interface FastifyContextConfig {
    provenBy?: Proof;
  }
}

/** Refuses to serve a route that does not declare how callers are authenticated. */
export function demandProofs(server: FastifyInstance): void {
  server.addHook('onRoute', ({ method, url, config }) => {
    if (config?.provenBy === undefined)
      throw new Error(`${String(method)} ${url} does not declare how its callers are authenticated`);
  });
}

/** The parts of a request that are known before its body is read. */
export type Head = Pick<FastifyRequest, 'id' | 'headers' | 'params' | 'query' | 'raw' | 'routeOptions'>;

/** A route outside the API's envelope. Its callers authenticate, and send their requests, in their own format. */
export interface PlainRoute<Admitted, Body = unknown> {
  method: 'GET' | 'POST';
  path: string;
  /** Reads the body, once the caller is admitted. Without it the handler may read it from `head.raw`. */
  body?(request: IncomingMessage): Promise<Body>;
  handle(call: PlainCall<Admitted, Body>): Promise<PlainAnswer>;
}

/** A route whose connection becomes a WebSocket once its caller is admitted. */
export interface SocketRoute<Admitted> {
  path: string;
  /** The largest message. */
  mostBytes: number;
  /** Throws if the caller may not have another connection. `open` follows at once. */
  demandRoom(admitted: Admitted): void;
  /** The bytes of the WebSocket come over the wire. */
  open(socket: WebSocket, admitted: Admitted, wire: Duplex): void;
}

export interface PlainCall<Admitted, Body = unknown> {
  head: Head;
  admitted: Admitted;
  body: Body;
  /** Aborted when the caller has gone. */
  signal: AbortSignal;
}

export interface PlainAnswer {
  status?: number;
  headers?: Record<string, string>;
  content: object | Readable;
}

export interface PlainRoutes<Admitted> {
  provenBy: Proof;
  /** Checks the head of a request before its body is read. A thrown error is the answer. */
  admit(head: Head, reply: Pick<FastifyReply, 'header'>): Promise<Admitted>;
  routes: readonly PlainRoute<Admitted>[];
  sockets?: readonly SocketRoute<Admitted>[];
  /** Writes an error in the format of these callers; undefined uses the API's own format. */
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
          take(request, reply, (socket, wire) => route.open(socket, admitted, wire));
        },
      });
    }
  });
}

function send(reply: FastifyReply, { status = 200, headers = {}, content }: PlainAnswer): FastifyReply {
  return reply.status(status).headers(headers).send(content);
}

/**
 * Created once: a new error for every request, most of which are already answered, would cost more than everything
 * else.
 */
const hungUp = new Error('the caller hung up');

/** A held request is ended when the caller disconnects. */
function whileConnected(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort(hungUp));
  return gone.signal;
}
