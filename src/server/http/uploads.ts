import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { unreadable } from '../../shared/records/raw.ts';

/** Routes added here get their bodies unread, of any type and length. */
export function withRawBodies(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
    add(scope);
  });
}

/**
 * A body as it arrives, at the reader's pace. Throws when it is cut off. A reader that stops in the middle can still
 * answer: Node skips the rest after the answer.
 */
export async function* arriving(request: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    for await (const piece of request.iterator({ destroyOnReturn: false })) yield piece as Buffer;
  } catch {
    throw unreadable(); // the server did nothing wrong: the client disconnected in the middle of its body
  }
  if (!request.complete) throw unreadable();
}
