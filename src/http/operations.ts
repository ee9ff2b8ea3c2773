import { timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { isLoopback } from '../lib/networks.ts';
import { packedOnce } from './compression.ts';
import type { Metrics } from './metrics.ts';

export interface Operations {
  document: object;
  metrics: Metrics;
  metricsToken: string | undefined;
  /** What is wrong with the service, in words for anybody. */
  trouble(): Promise<string | undefined>;
}

/** The addresses for machines that look after the service. Their answers have no envelope. */
export function addOperations(server: FastifyInstance, operations: Operations): void {
  const sendDocument = packedOnce(JSON.stringify(operations.document));
  server.get('/openapi.json', ({ headers }, reply) =>
    sendDocument(headers['accept-encoding'], reply.type('application/json; charset=utf-8')),
  );

  server.get('/healthz', async (_request, reply) => {
    const reason = await operations.trouble().catch(() => 'the service cannot look after itself');
    if (reason === undefined) return reply.send({ status: 'ok' });
    return reply.status(503).send({ status: 'unavailable', reason });
  });

  server.get('/metrics', (request, reply) => {
    if (!isLocal(request) && !hasToken(request, operations.metricsToken)) throw new ApiError('unauthorized');
    return reply
      .type(operations.metrics.contentType)
      .send(operations.metrics.text({ connections: server.connections.size }));
  });
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
