import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { isLoopback } from '../../shared/lib/networks.ts';
import { sendPacked } from './compression.ts';
import { hasMetricsToken } from './metrics-token.ts';
import type { Metrics, WorkGauges } from './metrics.ts';

export interface Operations {
  document(): object;
  metrics: Metrics;
  metricsToken: string | undefined;
  /** The problem, in words for any reader. Undefined if the server is healthy. */
  problem(): Promise<string | undefined>;
  overview(): Promise<WorkOverview>;
}

/** Without data of single accounts. */
export interface WorkOverview extends WorkGauges {
  /** Why no runner takes work, in words for any reader. */
  whyNobody: string | undefined;
}

/** The responses have no envelope. */
export function addOperations(server: FastifyInstance, operations: Operations): void {
  let document: string | undefined;
  server.get('/openapi.json', { config: { provenBy: 'none' } }, ({ headers }, reply) => {
    document ??= JSON.stringify(operations.document());
    return sendPacked(document, headers['accept-encoding'], reply.type('application/json; charset=utf-8'));
  });

  server.get('/healthz', { config: { provenBy: 'none' } }, async (_request, reply) => {
    const reason = await operations.problem().catch(() => 'the health check failed');
    const work = await operations.overview().then(workInWords, () => ({ runner: null, queue: null }));
    if (reason === undefined) return reply.send({ status: 'ok', ...work });
    return reply.status(503).send({ status: 'unavailable', reason, ...work });
  });

  server.get('/metrics', { config: { provenBy: 'operator' } }, async (request, reply) => {
    if (!isLocal(request) && !hasMetricsToken(request.headers, operations.metricsToken))
      throw new ApiError('unauthorized');
    const work = await operations.overview().catch(() => undefined); // without the database its gauges are omitted
    const text = await operations.metrics.text({ connections: server.connections.size, work });
    return reply.type(operations.metrics.contentType).send(text);
  });
}

/** A server without a runner is healthy: requests are accepted and wait. */
function workInWords({ runners, whyNobody, waiting, running, oldestSeconds }: WorkOverview): object {
  const connected = runners.idle + runners.busy;
  const sum = Object.values(running).reduce((total, count) => total + count, 0);
  return {
    runner: { state: connected > 0 ? 'connected' : 'none', connected, ...(whyNobody ? { reason: whyNobody } : {}) },
    queue: { waiting, running: sum, oldest_seconds: Math.floor(oldestSeconds) },
  };
}

/** Not through a proxy on this machine, which would admit every client. */
function isLocal(request: FastifyRequest): boolean {
  const forwarded = request.headers['x-forwarded-for'] ?? request.headers.forwarded;
  return forwarded === undefined && isLoopback(request.socket.remoteAddress ?? '');
}
