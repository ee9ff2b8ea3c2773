import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import type { RawGroup } from '../../shared/records/raw.ts';

/*
 * A page that puts a token into a request has the token, so it may read the response, whatever its site (the Fetch
 * standard). Cookies and Basic credentials, which a browser adds automatically, grant nothing here.
 */

const exposed =
  'link, location, x-request-id, content-range, accept-ranges, upload-offset, upload-complete, upload-limit, www-authenticate';
const taken = 'authorization, content-type, idempotency-key, last-event-id, range, upload-complete, upload-offset';

export function openToOrigins({ headers, query }: FastifyRequest, reply: FastifyReply): void {
  const { origin, cookie, authorization } = headers;
  if (origin === undefined || cookie !== undefined) return;
  const hasToken =
    authorization === undefined ? (query as RawGroup).oauth_token !== undefined : /^bearer /i.test(authorization);
  if (!hasToken) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', exposed);
}

/**
 * Browsers request permission before most requests, without credentials. They get it, because the real request is
 * checked for a token. Other OPTIONS requests are refused. `methods` are the path's.
 */
export function answerPreflight(
  methods: readonly string[],
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { origin, 'access-control-request-method': asked } = headers;
  if (origin === undefined || asked === undefined) {
    throw ApiError.ofHttp(400, 'api_does_not_exists', 'generic', { allow: [...methods, 'OPTIONS'].join(', ') });
  }
  return reply
    .status(204)
    .header('access-control-allow-origin', '*')
    .header('access-control-allow-methods', methods.join(', '))
    .header('access-control-allow-headers', taken)
    .header('access-control-max-age', '7200')
    .send();
}
