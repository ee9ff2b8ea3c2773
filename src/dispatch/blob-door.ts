import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Blob } from '../db/blobs.ts';
import { arriving, withRawBodies } from '../http/uploads.ts';
import { frugally } from '../lib/passing-bytes.ts';
import type { RunnerBlobs } from './runner-blobs.ts';

const pieceSize = 1024 * 1024;

/** The door for what is too large for an order or an outcome. */
export function addBlobDoor(
  door: FastifyInstance,
  blobs: RunnerBlobs,
  holderOf: (request: FastifyRequest) => string,
): void {
  door.get<{ Params: { digest: string }; Querystring: { offset?: string } }>(
    '/runner/blobs/:digest',
    async (request, reply) => {
      const blob = await blobs.read(request.params.digest);
      if (!blob) return reply.status(404).send({ missing: true });
      const offset = Math.min(Number(request.query.offset ?? 0), blob.size);
      reply.header('content-length', String(blob.size - offset)).type('application/octet-stream');
      const pieces = Readable.from(frugally(piecesOf(blob, offset)), { objectMode: false, highWaterMark: pieceSize });
      pieces.once('close', () => void blob[Symbol.asyncDispose]());
      return reply.send(pieces);
    },
  );

  withRawBodies(door, (scope) => {
    scope.post<{ Headers: { 'headrace-claim': string } }>('/runner/blobs', async (request, reply) => {
      const claim = request.headers['headrace-claim'];
      return reply.send(await blobs.store(holderOf(request), claim, arriving(request.raw)));
    });
  });
}

async function* piecesOf(blob: Blob, offset: number): AsyncGenerator<Buffer> {
  for (let at = offset; at < blob.size;) {
    const piece = await blob.read(at, Math.min(pieceSize, blob.size - at));
    if (piece.length === 0) return;
    yield piece;
    at += piece.length;
  }
}
