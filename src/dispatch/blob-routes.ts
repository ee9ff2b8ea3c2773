import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Runner } from '../auth/runners.ts';
import type { Blob } from '../db/blobs.ts';
import { ApiError } from '../errors.ts';
import { arriving, withRawBodies } from '../http/uploads.ts';
import { frugally } from '../lib/passing-bytes.ts';
import { readClaimHeader, readDigest, readOffset } from './messages.ts';
import type { RunnerBlobs } from './runner-blobs.ts';

const pieceSize = 1024 * 1024;

/** Routes for what is too large for an order or an outcome. */
export function addBlobRoutes(
  server: FastifyInstance,
  blobs: RunnerBlobs,
  runnerOf: (request: FastifyRequest) => Runner,
): void {
  server.get<{ Params: { digest: string }; Querystring: { offset?: unknown } }>(
    '/runner/blobs/:digest',
    async (request, reply) => {
      const asked = readOffset(request.query.offset ?? '0');
      const digest = readDigest(request.params.digest);
      const blob = digest === undefined ? undefined : await blobs.read(runnerOf(request), digest);
      if (!blob) throw new ApiError('not_found');
      const offset = Math.min(asked, blob.size);
      reply.header('content-length', String(blob.size - offset)).type('application/octet-stream');
      const pieces = Readable.from(frugally(piecesOf(blob, offset)), { objectMode: false, highWaterMark: pieceSize });
      pieces.once('close', () => void blob[Symbol.asyncDispose]());
      return reply.send(pieces);
    },
  );

  withRawBodies(server, (scope) => {
    scope.post('/runner/blobs', async (request, reply) => {
      const claim = readClaimHeader(request.headers);
      return reply.send(await blobs.store(runnerOf(request), claim, arriving(request.raw)));
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
