import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ApiError } from '../../shared/errors.ts';
import { challengesFor } from './challenges.ts';
import { sendPacked, worthPacking } from './compression.ts';
import { readCallback, wrapInCallback } from './jsonp.ts';
import type { TextAnswer } from './route.ts';
import type { RawGroup } from '../../shared/records/raw.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** If true, the response is never compressed (compression.ts). */
    showsSecrets?: boolean;
  }
  interface FastifyRequest {
    callback: string | undefined;
    /** The callback gets the status as an argument, because a browser calls it only if the response has 200. */
    suppressesStatus: boolean;
  }
}

const jsonType = 'application/json; charset=utf-8';

/** Only GET responses can be JSON-P. A wrong name is refused once the caller is known. */
export function takeCallback(request: FastifyRequest): ApiError | undefined {
  if (request.method !== 'GET') return undefined;
  const { callback, suppress_status: suppressed } = request.query as RawGroup;
  try {
    request.callback = readCallback(callback);
  } catch (error) {
    return error as ApiError;
  }
  request.suppressesStatus = suppressed === 'true';
  return undefined;
}

export function sendJson(json: string, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { callback, suppressesStatus } = request;
  if (callback === undefined) return sendPlain(json, request, reply.type(jsonType));
  reply.type('application/javascript; charset=utf-8');
  if (!suppressesStatus) return sendPlain(wrapInCallback(callback, json), request, reply);
  const link = JSON.stringify(reply.getHeader('link') ?? null);
  const answer = `${json}, {"status": ${reply.statusCode}, "link": ${link}}`;
  return sendPlain(wrapInCallback(callback, answer), request, reply.status(200));
}

export function sendText(
  { contentType, text }: TextAnswer,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  return sendPlain(text, request, reply.type(contentType).header('vary', 'accept'));
}

function sendPlain(text: string, { method, headers, routeOptions }: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (text.length < worthPacking || method !== 'GET' || routeOptions.config.showsSecrets) return reply.send(text);
  return sendPacked(text, headers['accept-encoding'], reply);
}

export function answerError(error: ApiError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error.status === 401) reply.header('www-authenticate', challengesFor(request.headers));
  reply.headers(error.headers);
  return sendJson(JSON.stringify(error.body), request, reply.status(error.status));
}
