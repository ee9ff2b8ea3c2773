import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { hearOut } from './unread-bodies.ts';
import { withRawBodies } from './uploads.ts';

/** What proves who calls a route. Every route of the server says which it is; none is served that does not. */
export type Proof =
  /** Credentials of the API: a key with Basic, or a token. */
  | 'credentials'
  /** The token of a runner, or that it comes over the socket in the data folder. */
  | 'runner'
  /** The secret of an application. */
  | 'client'
  /** That the sender knows the secret of the hook it calls, by a signature over the body or by the secret itself. */
  | 'signature'
  /** The cookie of a browser, and for what changes something the key that its page carried. */
  | 'session'
  /** The metrics token, or that it comes from this machine. */
  | 'operator'
  /** Nothing: it is for anybody. */
  | 'none';

declare module 'fastify' {
  interface FastifyContextConfig {
    provenBy?: Proof;
  }
}

/** Refuses to serve a route that does not say what proves who calls it. */
export function demandProofs(server: FastifyInstance): void {
  server.addHook('onRoute', ({ method, url, config }) => {
    if (config?.provenBy === undefined) throw new Error(`${String(method)} ${url} does not say what proves who calls`);
  });
}

/** What is known of a request before anything of its body is read. */
export type Head = Pick<FastifyRequest, 'id' | 'headers' | 'params' | 'query' | 'raw'>;

/** A route outside the API's envelope. Its callers prove who they are, and say what they want, in a way of their own. */
export interface BareRoute<Admitted, Body = unknown> {
  method: 'GET' | 'POST';
  path: string;
  /** Takes the body, once the caller is admitted. Without it the handler may, from `head.raw`. */
  body?(request: IncomingMessage): Promise<Body>;
  handle(call: BareCall<Admitted, Body>): Promise<BareAnswer>;
}

export interface BareCall<Admitted, Body = unknown> {
  head: Head;
  admitted: Admitted;
  body: Body;
  /** Says that the caller has gone. */
  signal: AbortSignal;
}

export interface BareAnswer {
  status?: number;
  headers?: Record<string, string>;
  content: object | Readable;
}

export interface BareRoutes<Admitted> {
  provenBy: Proof;
  /** Whether its answers are counted among those of the API; requests that are held would blur how long those take. */
  isCounted: boolean;
  /** Judges the head of a request, before anything of its body is read. What it throws is the answer. */
  admit(head: Head, reply: Pick<FastifyReply, 'header'>): Promise<Admitted>;
  routes: readonly BareRoute<Admitted>[];
  /** Says an error in the form that these callers understand; undefined leaves it to the API's own. */
  refuse?(error: unknown, head: Head): BareAnswer | undefined;
}

export function addBareRoutes<Admitted>(server: FastifyInstance, group: BareRoutes<Admitted>): void {
  withRawBodies(server, (scope) => {
    scope.setErrorHandler(async (error, request, reply) => {
      const answer = group.refuse?.(error, request);
      if (!answer) throw error;
      await hearOut(request, reply);
      return send(reply, answer);
    });
    if (group.isCounted)
      scope.addHook('onResponse', async (_, reply) => server.answered(reply.statusCode, reply.elapsedTime));
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
          return send(reply, await route.handle({ ...call, body: await route.body?.(request.raw) }));
        },
      });
    }
  });
}

function send(reply: FastifyReply, { status = 200, headers = {}, content }: BareAnswer): FastifyReply {
  return reply.status(status).headers(headers).send(content);
}

/** Said once: to make an error anew for every request, most of which are answered by then, costs more than all the rest. */
const hungUp = new Error('the caller hung up');

/** What is held is let go when the caller hangs up. */
function whileConnected(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort(hungUp));
  return gone.signal;
}
