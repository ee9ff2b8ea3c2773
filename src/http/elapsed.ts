import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /** When its head arrived, by the clock of `performance`. */
    startedAt: number;
  }
}

/** How long a request took so far. Fastify measures it only with a logger. */
export function elapsed({ startedAt }: FastifyRequest): number {
  return performance.now() - startedAt;
}
