import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import type { RawGroup } from './raw.ts';
import type { RouteDescription } from './route.ts';

/*
 * Pages of other sites (the standard is Fetch's). A token is put into a request by whoever has it, so whose page that is
 * does not matter: the answer is theirs. What a browser adds by itself, a cookie or Basic credentials, opens nothing.
 */

const exposed = 'link, x-request-id, content-range, accept-ranges, www-authenticate';
const taken = 'authorization, content-type, idempotency-key, last-event-id, range';

export function openToOrigins({ headers, query }: FastifyRequest, reply: FastifyReply): void {
  const { origin, cookie, authorization } = headers;
  if (origin === undefined || cookie !== undefined) return;
  const hasToken =
    authorization === undefined ? (query as RawGroup).oauth_token !== undefined : /^bearer /i.test(authorization);
  if (!hasToken) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', exposed);
}

/**
 * Browsers ask first whether they may send what is not a plain form, without the credentials that they would send. They
 * may: whether there is a token in it is seen when it comes. An OPTIONS that asks nothing is none of ours.
 */
export function answerPreflights(server: FastifyInstance, routes: readonly RouteDescription[]): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of routes) methods.set(path, (methods.get(path) ?? new Set()).add(method));
  for (const [path, allowed] of methods) {
    server.options(path, { config: { provenBy: 'none' } }, async ({ headers }, reply) => {
      const { origin, 'access-control-request-method': asked } = headers;
      if (origin === undefined || asked === undefined) throw new ApiError('api_does_not_exists');
      return reply
        .status(204)
        .header('access-control-allow-origin', '*')
        .header('access-control-allow-methods', [...allowed].join(', '))
        .header('access-control-allow-headers', taken)
        .header('access-control-max-age', '7200')
        .send();
    });
  }
}
