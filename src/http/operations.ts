import { timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { isLoopback } from '../lib/networks.ts';
import { packedOnce } from './compression.ts';
import type { Metrics, WorkGauges } from './metrics.ts';

export interface Operations {
  /** The OpenAPI document, made when somebody asks for it. */
  document(): object;
  metrics: Metrics;
  metricsToken: string | undefined;
  /** What is wrong with the service, in words for anybody. */
  trouble(): Promise<string | undefined>;
  /** How the work stands. */
  overview(): Promise<WorkOverview>;
}

/** What is to be known about runners and the queue, with nothing that concerns one account alone. */
export interface WorkOverview extends WorkGauges {
  /** Why nobody takes any work, in words for anybody. */
  whyNobody: string | undefined;
}

/** The addresses for machines that look after the service. Their answers have no envelope. */
export function addOperations(server: FastifyInstance, operations: Operations): void {
  const sendDocument = packedOnce(() => JSON.stringify(operations.document()));
  server.get('/openapi.json', { config: { provenBy: 'none' } }, ({ headers }, reply) =>
    sendDocument(headers['accept-encoding'], reply.type('application/json; charset=utf-8')),
  );

  server.get('/healthz', { config: { provenBy: 'none' } }, async (_request, reply) => {
    const reason = await operations.trouble().catch(() => 'the service cannot look after itself');
    const work = await operations.overview().then(workInWords, () => ({ runner: null, queue: null }));
    if (reason === undefined) return reply.send({ status: 'ok', ...work });
    return reply.status(503).send({ status: 'unavailable', reason, ...work });
  });

  server.get('/metrics', { config: { provenBy: 'operator' } }, async (request, reply) => {
    if (!isLocal(request) && !hasToken(request, operations.metricsToken)) throw new ApiError('unauthorized');
    const work = await operations.overview().catch(() => undefined); // what the database knows is left out without it
    return reply
      .type(operations.metrics.contentType)
      .send(operations.metrics.text({ connections: server.connections.size, work }));
  });
}

/** That there is no runner does not make a server unfit: it takes requests, and they wait for one. */
function workInWords({ runners, whyNobody, waiting, running, oldestSeconds }: WorkOverview): object {
  const connected = runners.idle + runners.busy;
  const sum = Object.values(running).reduce((total, count) => total + count, 0);
  return {
    runner: { state: connected > 0 ? 'connected' : 'none', connected, ...(whyNobody ? { reason: whyNobody } : {}) },
    queue: { waiting, running: sum, oldest_seconds: Math.floor(oldestSeconds) },
  };
}

/** From this machine itself, and not through a proxy on it: that would let the whole world in. */
function isLocal(request: FastifyRequest): boolean {
  const forwarded = request.headers['x-forwarded-for'] ?? request.headers.forwarded;
  return forwarded === undefined && isLoopback(request.socket.remoteAddress ?? '');
}

function hasToken(request: FastifyRequest, token: string | undefined): boolean {
  if (token === undefined) return false;
  const sent = Buffer.from(request.headers.authorization ?? '');
  const expected = Buffer.from(`Bearer ${token}`);
  return sent.length === expected.length && timingSafeEqual(sent, expected);
}
