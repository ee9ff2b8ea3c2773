import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { parseForm, readBodies } from './bodies.ts';
import {
  guardConnections,
  checkIntervalMs,
  usualTimes,
  type ConnectionLimits,
  type Connections,
  type ConnectionTimes,
  type ConnectionWatcher,
} from './connections.ts';
import { methodsByPath, type Served } from './allowed-methods.ts';
import { demandProofs, whileConnected } from './plain-routes.ts';
import { answerPreflight, openToOrigins } from './cors.ts';
import { answerError, sendJson, sendText, takeCallback } from './json-answers.ts';
import { linkHeader } from './paging.ts';
import { protocols } from './protocols.ts';
import { emptyGroup, unreadable, type RawGroup } from '../../shared/records/raw.ts';
import type { Endpoint, Incoming } from './route.ts';
import type { JsonSchema } from '../../shared/records/schema.ts';
import { serializer } from './serializer.ts';
import { mapYielding } from '../../shared/lib/event-loop.ts';
import { isLocalhost, strictTransport } from './strict-transport.ts';
import { createStreams, type Streams } from './streams.ts';
import { drainBody } from './unread-bodies.ts';
import { takeUpgrades } from './upgrades.ts';
import { withRawBodies } from './uploads.ts';
import { headCheck, routeOddRequests, wireErrors } from './wire-errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Counts a response that bypasses Fastify. A hook counts all others. */
    answered(request: FastifyRequest, status: number): void;
    connections: Connections;
    streams: Streams;
  }
  interface FastifyRequest {
    /** When its head arrived, by the clock of `performance`. */
    startedAt: number;
    admitted: unknown;
  }
}

/** A host name where nothing of this server is served. */
export interface OtherHost {
  isFor(request: IncomingMessage): boolean;
  answer: RequestListener;
}

export interface ServerOptions {
  endpoints: readonly Endpoint[];
  otherHost?: OtherHost | undefined;
  /** Without them the server speaks plain HTTP, behind a proxy on the same machine. */
  tls?: { key: string; cert: string };
  baseUrl?: string | undefined;
  log: FastifyBaseLogger;
  translate: (error: unknown) => ApiError | undefined;
  onAnswered?: (status: number, milliseconds: number) => void;
  /** How often the server checks that listeners of streams are still authorized. */
  streamPauseMs?: number | undefined;
  connections?: { limits: ConnectionLimits; watcher: ConnectionWatcher };
  connectionTimes?: Partial<ConnectionTimes> | undefined;
  isStrict?: boolean;
}

const anybody = {
  limits: { most: Infinity, mostOfOne: Infinity },
  watcher: { refused: () => {}, ended: () => {} },
};

export function createServer(options: ServerOptions): FastifyInstance {
  const guard = options.connections ?? anybody;
  const other = options.otherHost;
  const times = { ...usualTimes, ...options.connectionTimes };
  // `guardConnections` limits all other slowness. A large archive takes its time on a slow line.
  const slowness = {
    handshakeTimeout: times.handshakeMs,
    headersTimeout: times.headMs,
    connectionsCheckingInterval: checkIntervalMs(times),
  };
  const answerWireError = wireErrors(
    () => server.connections,
    options.isStrict ? { 'strict-transport-security': strictTransport } : {},
  );
  const faultOfHead = headCheck();
  let isStopping = false;
  const markAnswer = answerMarker(options.isStrict ?? false);
  const server = Fastify({
    serverFactory: (handler) =>
      protocols(
        options.tls,
        slowness,
      )((request, response) => (other?.isFor(request) ? other.answer : handler)(request, response)),
    return503OnClosing: false,
    pluginTimeout: 0, // no plugin here can hang, and each route would get a timer
    // Fastify's logger per request costs more than many requests. Log entries name the request's ID here.
    logger: false,
    genReqId: requestIds(),
    bodyLimit: bytes.body,
    // `fields.ts` and `serializer.ts` replace Fastify's code for this, which is not loaded and saves 10 MB.
    schemaController: { compilersFactory: { buildValidator: unused, buildSerializer: unused } },
    forceCloseConnections: 'idle',
    routerOptions: {
      maxParamLength: 16_384, // an overlong identifier gets the response for a missing record
      querystringParser: readQuery,
    },
    clientErrorHandler(error, socket) {
      // The error itself contains the received bytes, perhaps with credentials.
      options.log.debug({ code: error.code }, 'unreadable request');
      if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') guard.watcher.ended('handshake');
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') guard.watcher.ended('head');
      answerWireError(error.code, socket);
    },
    // A path that cannot be decoded comes here before any hook.
    frameworkErrors(_error, request, reply) {
      markAnswer(request, reply);
      void answerError(new ApiError('api_does_not_exists'), request, reply);
    },
  }) as unknown as FastifyInstance;

  server.decorate('answered', ({ startedAt }, status) => options.onAnswered?.(status, performance.now() - startedAt));
  demandProofs(server);
  const served: Served[] = [];
  server.addHook('onRoute', ({ path, method }) => void served.push({ path, methods: [method].flat() }));
  const methodsOf = methodsByPath(served);
  const methodsOfApi = methodsByPath(options.endpoints.map(({ path, method }) => ({ path, methods: [method] })));
  readBodies(server);
  server.decorateRequest('callback', undefined);
  server.decorateRequest('suppressesStatus', false);
  server.decorateRequest('startedAt', 0);
  server.decorateRequest('admitted', undefined);

  server.addHook('onRequest', (request, reply, done) => {
    markAnswer(request, reply);
    const fault = faultOfHead(request.raw);
    if (fault) done(fault);
    else if (isStopping) done(ApiError.ofHttp(503, 'resource_temporary_unavailable'));
    else if (request.query === unreadableQuery) done(unreadable());
    else done();
  });
  // Before the end of the response: a stream may last for days. Runners have held requests.
  server.addHook('onSend', (request, reply, payload, done) => {
    if (request.routeOptions.config.provenBy !== 'runner') server.answered(request, reply.statusCode);
    done(null, payload);
  });
  if (options.log.level === 'debug' || options.log.level === 'trace') {
    server.addHook('onResponse', (request, reply, done) => {
      // The query may contain a token, so it is omitted.
      const [path] = request.url.split('?', 1);
      const { id, method } = request;
      options.log.debug({ id, method, path, status: reply.statusCode, ms: reply.elapsedTime }, 'answered');
      done();
    });
  }

  server.setNotFoundHandler(async (request, reply) => {
    takeCallback(request);
    const [path = ''] = request.url.split('?', 1);
    await drainBody(request, reply);
    const ofApi = methodsOfApi(path);
    // A route per path would make every start slower.
    if (request.method === 'OPTIONS' && ofApi.length > 0) return answerPreflight(ofApi, request, reply);
    const methods = [...methodsOf(path), ...(ofApi.length > 0 ? ['OPTIONS'] : [])];
    if (methods.length > 0) reply.header('allow', methods.toSorted().join(', '));
    return answerError(new ApiError('api_does_not_exists'), request, reply);
  });
  server.setErrorHandler(async (error, request, reply) => {
    await drainBody(request, reply);
    const known = error instanceof ApiError ? error : (options.translate(error) ?? bodyError(error));
    // The body of a request is read even if its path does not exist. So an error of the body may arrive here first.
    if (known?.status === 403 && request.is404) return answerError(new ApiError('api_does_not_exists'), request, reply);
    if (known) return answerError(known, request, reply);
    options.log.error({ id: request.id, err: error }, 'a request failed');
    return sendJson('{"error":{"generic":[]}}', request, reply.status(500));
  });

  routeOddRequests(server.server);
  takeUpgrades(server, (request) => other?.isFor(request) ?? false);
  server.addHook('preClose', (done) => {
    isStopping = true;
    done();
  });
  server.decorate('connections', guardConnections(server, { hasTls: options.tls !== undefined, times, ...guard }));
  const streams = createStreams(server, options.log, options.streamPauseMs);
  server.decorate('streams', streams);
  const add = (to: FastifyInstance, endpoint: Endpoint): void => addEndpoint(to, endpoint, options.baseUrl, streams);
  for (const endpoint of options.endpoints.filter(({ uploads }) => !uploads)) add(server, endpoint);
  withRawBodies(server, (scope) => {
    for (const endpoint of options.endpoints.filter(({ uploads }) => uploads)) add(scope, endpoint);
  });
  return server;
}

function unused(): never {
  throw new Error('routes have no schemas of Fastify');
}

/** Unique across servers and restarts, and fast. */
function requestIds(): () => string {
  const start = randomUUID().slice(0, 18);
  let count = 0;
  return () => `${start}-${(count += 1).toString(36)}`;
}

function addEndpoint(server: FastifyInstance, endpoint: Endpoint, baseUrl: string | undefined, streams: Streams): void {
  const write = writer(endpoint);
  server.route({
    method: endpoint.method,
    url: endpoint.path,
    config: {
      showsSecrets: endpoint.showsSecrets ?? false,
      provenBy: endpoint.access === 'none' ? 'none' : 'credentials',
    },
    async onRequest(request, reply) {
      openToOrigins(request, reply);
      const fault = endpoint.streams ? undefined : takeCallback(request);
      request.admitted = await endpoint.admit(request as Incoming);
      if (fault) throw fault;
    },
    handler(request, reply) {
      if (endpoint.streams) return answerStream(endpoint, streams, request, reply);
      return answer({ endpoint, write, baseUrl, streams }, request, reply);
    },
  });
}

async function answerStream(
  endpoint: Endpoint,
  streams: Streams,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const signal = whileAdmitted(endpoint, streams, request, reply);
  const given = await endpoint.perform(request as Incoming, request.admitted, signal);
  if (!('stream' in given)) throw new Error(`${endpoint.path} streams its answer`);
  return streams.send(given.stream, request, reply);
}

function whileAdmitted(
  endpoint: Endpoint,
  streams: Streams,
  request: FastifyRequest,
  reply: FastifyReply,
): AbortSignal {
  return streams.whileOpen(reply, () => endpoint.admit(request as Incoming, request.admitted));
}

type Writer = (response: unknown) => string | Promise<string>;

/** Made on first use: few endpoints are ever called. Long lists give other requests their turn. */
function writer({ answer: record }: Endpoint): Writer {
  const schema: JsonSchema = record;
  let write: ReturnType<typeof serializer> | undefined;
  if (schema.type !== 'array' || !schema.items)
    return (response) => (write ??= serializer(envelope(schema)))({ response });
  const { items } = schema;
  return async (response) => {
    const texts = await mapYielding(response as unknown[], (write ??= serializer(items)));
    return `{"response":[${texts.join(',')}]}`;
  };
}

async function answer(
  {
    endpoint,
    write,
    baseUrl,
    streams,
  }: { endpoint: Endpoint; write: Writer; baseUrl: string | undefined; streams: Streams },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // An upload may last for hours.
  const arriving = endpoint.uploads && whileAdmitted(endpoint, streams, request, reply);
  const signal = endpoint.endsWithCaller === true ? whileConnected(reply) : arriving;
  const given = await endpoint.perform(request as Incoming, request.admitted, signal);
  reply.status(given.status ?? endpoint.status);
  if ('text' in given) return sendText(given.text, request, reply);
  if ('json' in given) return sendJson(given.json, request, reply);
  if ('stream' in given) throw new Error(`${endpoint.path} does not say that it streams`);
  if ('page' in given) {
    const link = linkHeader(listUrl(endpoint, baseUrl, request), given.page);
    if (link) reply.header('link', link);
    return sendJson(await write(given.page.items), request, reply);
  }
  reply.headers(given.headers ?? {});
  if (given.record === undefined) return reply.status(204).send();
  return sendJson(await write(given.record), request, reply);
}

/** With the declared filters only. Other query parameters may contain a token. */
function listUrl(endpoint: Endpoint, baseUrl: string | undefined, request: FastifyRequest): URL {
  const [path = '/'] = request.url.split('?', 1);
  const host = String(request.headers.host ?? request.headers[':authority'] ?? 'localhost'); // the second is for HTTP/2
  const url = new URL(path, baseUrl ?? `${request.protocol}://${host}`);
  for (const name of ['limit', ...Object.keys(endpoint.query ?? {})]) {
    const value = (request.query as RawGroup)[name];
    if (typeof value === 'string') url.searchParams.set(name, value);
  }
  return url;
}

export function envelope(answer: JsonSchema): JsonSchema {
  return { type: 'object', properties: { response: answer }, required: ['response'], additionalProperties: false };
}

const noQuery = emptyGroup();
const unreadableQuery = emptyGroup();

/** The router calls this where an error cannot be answered, so an invalid query is only marked here. */
function readQuery(text: string): Record<string, unknown> {
  try {
    return text === '' ? noQuery : parseForm(text);
  } catch {
    return unreadableQuery;
  }
}

/** Above all, no browser may guess another content type. */
function answerMarker(isStrict: boolean): (request: FastifyRequest, reply: FastifyReply) => void {
  return (request, reply) => {
    request.startedAt = performance.now();
    reply
      .header('x-request-id', request.id)
      .header('cache-control', 'no-store')
      .header('x-content-type-options', 'nosniff');
    if (isStrict && !isLocalhost(request.hostname)) reply.header('strict-transport-security', strictTransport);
  };
}

/** Fastify found the body too large, cut short, or of an unknown type. */
function bodyError(error: unknown): ApiError | undefined {
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return status >= 400 && status < 500 ? new ApiError('invalid_format') : undefined;
}
