import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import type { RawGroup } from '../../shared/records/raw.ts';

/*
 * Requests from pages of other sites (the Fetch standard). A page that puts a token into a request has the token, so it
 * may read the answer, whatever its site. Cookies and Basic credentials, which a browser adds by itself, grant nothing
 * here.
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
 * Before a request that is not a plain form, browsers ask for permission, without the credentials they would send. They
 * get it: the real request is checked for a token. An OPTIONS request that asks nothing is not served. `methods` are
 * those of its path.
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
