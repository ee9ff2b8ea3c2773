import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { isLoopback } from '../../shared/lib/networks.ts';
import { sendPacked } from './compression.ts';
import { hasMetricsToken } from './metrics-token.ts';
import type { Metrics, WorkGauges } from './metrics.ts';

export interface Operations {
  /** The OpenAPI document, made on request. */
  document(): object;
  metrics: Metrics;
  metricsToken: string | undefined;
  /** What is wrong with the service, in words for any reader. */
  trouble(): Promise<string | undefined>;
  /** The state of the queue and the runners. */
  overview(): Promise<WorkOverview>;
}

/** Runners and the queue, without data of single accounts. */
export interface WorkOverview extends WorkGauges {
  /** Why no runner takes work, in words for any reader. */
  whyNobody: string | undefined;
}

/** Routes for monitoring. Their answers have no envelope. */
export function addOperations(server: FastifyInstance, operations: Operations): void {
  let document: string | undefined;
  server.get('/openapi.json', { config: { provenBy: 'none' } }, ({ headers }, reply) => {
    document ??= JSON.stringify(operations.document());
    return sendPacked(document, headers['accept-encoding'], reply.type('application/json; charset=utf-8'));
  });

  server.get('/healthz', { config: { provenBy: 'none' } }, async (_request, reply) => {
    const reason = await operations.trouble().catch(() => 'the health check failed');
    const work = await operations.overview().then(workInWords, () => ({ runner: null, queue: null }));
    if (reason === undefined) return reply.send({ status: 'ok', ...work });
    return reply.status(503).send({ status: 'unavailable', reason, ...work });
  });

  server.get('/metrics', { config: { provenBy: 'operator' } }, async (request, reply) => {
    if (!isLocal(request) && !hasMetricsToken(request.headers, operations.metricsToken))
      throw new ApiError('unauthorized');
    const work = await operations.overview().catch(() => undefined); // without the database its gauges are left out
    const text = await operations.metrics.text({ connections: server.connections.size, work });
    return reply.type(operations.metrics.contentType).send(text);
  });
}

/** A server without a runner is not unhealthy: it accepts requests, and they wait for a runner. */
function workInWords({ runners, whyNobody, waiting, running, oldestSeconds }: WorkOverview): object {
  const connected = runners.idle + runners.busy;
  const sum = Object.values(running).reduce((total, count) => total + count, 0);
  return {
    runner: { state: connected > 0 ? 'connected' : 'none', connected, ...(whyNobody ? { reason: whyNobody } : {}) },
    queue: { waiting, running: sum, oldest_seconds: Math.floor(oldestSeconds) },
  };
}

/** From this machine, and not through a proxy on it, which would admit every client. */
function isLocal(request: FastifyRequest): boolean {
  const forwarded = request.headers['x-forwarded-for'] ?? request.headers.forwarded;
  return forwarded === undefined && isLoopback(request.socket.remoteAddress ?? '');
}
