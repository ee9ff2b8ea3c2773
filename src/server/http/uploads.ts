import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { unreadable } from '../../shared/records/raw.ts';

/** Adds routes whose bodies stay unread, of any type and length. */
export function withRawBodies(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
    add(scope);
  });
}

/**
 * Throws if the body is cut off. A reader that stops early can still respond: Node skips the rest. The connection ends if
 * its client is no longer authorized.
 */
export async function* arriving(request: IncomingMessage, signal?: AbortSignal): AsyncGenerator<Buffer> {
  const refuse = (): void => void (signal?.reason instanceof ApiError && request.destroy());
  signal?.addEventListener('abort', refuse, { once: true });
  refuse();
  try {
    for await (const piece of request.iterator({ destroyOnReturn: false })) yield piece as Buffer;
  } catch {
    throw unreadable(); // no fault of the server: the client disconnected within its body
  }
  if (!request.complete) throw unreadable();
}
