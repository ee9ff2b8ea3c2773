import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /** When its head was there, on the clock of `performance`. */
    startedAt: number;
  }
}

/** How long a request took until now. Fastify itself looks at the clock only where it has somebody to tell. */
export function elapsed({ startedAt }: FastifyRequest): number {
  return performance.now() - startedAt;
}
