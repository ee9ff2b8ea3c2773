import { randomUUID } from 'node:crypto';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { largestBody, parseForm, readBodies } from './bodies.ts';
import { readCallback, wrapInCallback } from './jsonp.ts';
import { linkHeader } from './paging.ts';
import { emptyGroup, unreadable, type RawGroup } from './raw.ts';
import type { Answer, Endpoint, Incoming } from './route.ts';
import { forSerializer, type JsonSchema } from './schema.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The function that a JSON-P answer calls. */
    callback: string | undefined;
    incoming: Incoming | undefined;
    admitted: unknown;
  }
}

export interface ServerOptions {
  endpoints: readonly Endpoint[];
  /** Key and certificate; without them plain HTTP is spoken, behind a proxy on the same machine. */
  tls?: { key: string; cert: string };
  /** Where callers find this server, for links; by default the host they named. */
  baseUrl?: string | undefined;
  log: FastifyBaseLogger;
  /** Turns an error of a lower layer into the API's own, where there is one for it. */
  translate: (error: unknown) => ApiError | undefined;
  onAnswered?: (status: number, milliseconds: number) => void;
}

export function createServer(options: ServerOptions): FastifyInstance {
  const server = Fastify({
    https: options.tls ? { ...options.tls, minVersion: 'TLSv1.2' } : null,
    // Fastify would make a logger for each request, which costs more than many requests: what is logged here carries the
    // identifier itself.
    logger: false,
    genReqId: requestIds(),
    bodyLimit: largestBody,
    forceCloseConnections: 'idle',
    routerOptions: {
      maxParamLength: 16_384, // an absurd identifier is still one that names nothing
      querystringParser: readQuery,
    },
    clientErrorHandler(error, socket) {
      options.log.debug({ err: error }, 'unreadable request');
      if (socket.writable) socket.end(unreadableRequest());
    },
    // Comes before any hook: a path that cannot even be decoded.
    frameworkErrors(_error, request, reply) {
      markAnswer(request, reply);
      answerError(new ApiError('api_does_not_exists'), reply);
    },
  }) as unknown as FastifyInstance;

  const logsRequests = options.log.level === 'debug' || options.log.level === 'trace';
  readBodies(server);
  server.decorateRequest('callback', undefined);
  server.decorateRequest('incoming', undefined);
  server.decorateRequest('admitted', undefined);

  server.addHook('onRequest', (request, reply, done) => {
    markAnswer(request, reply);
    try {
      if (request.query === unreadableQuery) throw unreadable();
      if (request.method === 'GET') request.callback = readCallback((request.query as RawGroup).callback);
      done();
    } catch (error) {
      done(error as ApiError);
    }
  });
  server.addHook('onSend', (request, reply, payload, done) => {
    if (request.callback === undefined || typeof payload !== 'string') return done(null, payload);
    reply.type('application/javascript; charset=utf-8');
    done(null, wrapInCallback(request.callback, payload));
  });
  server.addHook('onResponse', (request, reply, done) => {
    options.onAnswered?.(reply.statusCode, reply.elapsedTime);
    if (logsRequests) {
      // The path without its query: a token may stand there.
      const [path] = request.url.split('?', 1);
      const { id, method } = request;
      options.log.debug({ id, method, path, status: reply.statusCode, ms: reply.elapsedTime }, 'answered');
    }
    done();
  });

  server.setNotFoundHandler((_request, reply) => answerError(new ApiError('api_does_not_exists'), reply));
  server.setErrorHandler((error, request, reply) => {
    const known = error instanceof ApiError ? error : (options.translate(error) ?? bodyError(error));
    if (known) return answerError(known, reply);
    options.log.error({ id: request.id, err: error }, 'a request failed');
    return reply.status(500).type(jsonType).send('{"error":{"generic":[]}}');
  });

  for (const endpoint of options.endpoints) addEndpoint(server, endpoint, options.baseUrl);
  return server;
}

/** Unique across servers and restarts, and made in no time: a random part for the process, and a number. */
function requestIds(): () => string {
  const start = randomUUID().slice(0, 13);
  let count = 0;
  return () => `${start}-${(count += 1).toString(36)}`;
}

const jsonType = 'application/json; charset=utf-8';

function addEndpoint(server: FastifyInstance, endpoint: Endpoint, baseUrl: string | undefined): void {
  server.route({
    method: endpoint.method,
    url: endpoint.path,
    schema: { response: { '2xx': forSerializer(envelope(endpoint.answer)) } },
    onRequest: async (request) => {
      request.incoming = new FastifyIncoming(request);
      request.admitted = await endpoint.admit(request.incoming);
    },
    handler: async (request, reply) => {
      const incoming = request.incoming ?? new FastifyIncoming(request);
      const answer = await endpoint.perform(incoming, request.admitted);
      reply.status(answer.status ?? endpoint.status);
      return send(answer, endpoint, baseUrl, request, reply);
    },
  });
}

function send(
  answer: Answer,
  endpoint: Endpoint,
  baseUrl: string | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): unknown {
  if ('json' in answer) return reply.type(jsonType).send(answer.json);
  if ('record' in answer) return { response: answer.record };
  const link = linkHeader(listUrl(endpoint, baseUrl, request), answer.page);
  if (link) reply.header('link', link);
  return { response: answer.page.items };
}

/** The list's own address with the filters it declares. What else stood in the query, a token perhaps, is left out. */
function listUrl(endpoint: Endpoint, baseUrl: string | undefined, request: FastifyRequest): URL {
  const [path = '/'] = request.url.split('?', 1);
  const url = new URL(path, baseUrl ?? `${request.protocol}://${request.host}`);
  for (const name of ['limit', ...Object.keys(endpoint.query ?? {})]) {
    const value = (request.query as RawGroup)[name];
    if (typeof value === 'string') url.searchParams.set(name, value);
  }
  return url;
}

export function envelope(answer: JsonSchema): JsonSchema {
  return { type: 'object', properties: { response: answer }, required: ['response'], additionalProperties: false };
}

class FastifyIncoming implements Incoming {
  readonly #request: FastifyRequest;

  constructor(request: FastifyRequest) {
    this.#request = request;
  }

  get id(): string {
    return this.#request.id;
  }

  get params(): Record<string, string> {
    return this.#request.params as Record<string, string>;
  }

  get query(): RawGroup {
    return this.#request.query as RawGroup;
  }

  get body(): RawGroup {
    return (this.#request.body as RawGroup | undefined) ?? emptyGroup();
  }

  get headers(): NodeJS.Dict<string | string[]> {
    return this.#request.headers;
  }
}

const noQuery = emptyGroup();
const unreadableQuery = emptyGroup();

/** The router calls this where an error could not be answered, so a query that makes no sense is only marked here. */
function readQuery(text: string): Record<string, unknown> {
  try {
    return text === '' ? noQuery : parseForm(text);
  } catch {
    return unreadableQuery;
  }
}

/** What every answer carries. */
function markAnswer(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ 'x-request-id': request.id, 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
}

function answerError(error: ApiError, reply: FastifyReply): FastifyReply {
  if (error.status === 401) reply.header('www-authenticate', 'Basic realm="Headrace", charset="UTF-8"');
  return reply.status(error.status).type(jsonType).send(JSON.stringify(error.body));
}

/** Fastify found the body too large, cut short, or of no known kind. */
function bodyError(error: unknown): ApiError | undefined {
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return status >= 400 && status < 500 ? new ApiError('invalid_format') : undefined;
}

/** Bytes that are not HTTP get an answer in the API's form all the same. */
function unreadableRequest(): string {
  const body = JSON.stringify(new ApiError('api_does_not_exists').body);
  return [
    'HTTP/1.1 400 Bad Request',
    `content-type: ${jsonType}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${randomUUID()}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
