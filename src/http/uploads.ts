import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { unreadable } from './raw.ts';

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
export function arriving(request: IncomingMessage): AsyncGenerator<Buffer> {
  return piecesOf(request);
}

/** TLS delivers 16 KB at a time; passing on each alone would cost more than the work on them. */
const pieceSize = 256 * 1024;
/** While a piece is processed, up to this much more arrives. */
const mostAhead = 1024 * 1024;

async function* piecesOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  let gathered: Buffer[] = [];
  let size = 0;
  let enough = Promise.withResolvers<void>();
  // A body that broke off before anybody read it says so no more.
  const body = { isOver: request.destroyed };
  const gather = (chunk: Buffer): void => {
    gathered.push(chunk);
    size += chunk.length;
    if (size >= pieceSize) enough.resolve();
    if (size >= mostAhead) request.pause();
  };
  const finish = (): void => {
    body.isOver = true;
    enough.resolve();
  };
  request.on('data', gather).on('end', finish).on('error', finish).on('close', finish);
  try {
    while (!body.isOver || size > 0) {
      if (!body.isOver && size < pieceSize) {
        enough = Promise.withResolvers<void>();
        await enough.promise;
      }
      const piece = Buffer.concat(gathered, size);
      gathered = [];
      size = 0;
      if (request.isPaused()) request.resume();
      if (piece.length > 0) yield piece;
    }
  } finally {
    request.off('data', gather);
  }
  // The server did nothing wrong: the client disconnected in the middle of its body.
  if (!request.complete || request.errored) throw unreadable();
}
