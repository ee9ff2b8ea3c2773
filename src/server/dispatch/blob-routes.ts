import { Readable } from 'node:stream';
import type { Runner } from '../auth/runners.ts';
import { piecesOf } from '../db/blobs.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlainRoute } from '../http/plain-routes.ts';
import { arriving } from '../http/uploads.ts';
import { followsHeader } from '../../shared/protocol/index.ts';
import { readClaimHeader, readDigest, readOffset } from './headers.ts';
import type { RunnerBlobs } from './runner-blobs.ts';

const pieceSize = 1024 * 1024;
/** Larger blobs come directly from blob storage, if it has an address and the runner follows it. */
const directFrom = 1024 * 1024;

/** For data too large for an order or an outcome. */
export function blobRoutes(blobs: RunnerBlobs): PlainRoute<Runner>[] {
  return [
    {
      method: 'GET',
      path: '/runner/blobs/:digest',
      async handle({ admitted, head }) {
        const { digest: named } = head.params as { digest: string };
        const { offset: sent = '0' } = head.query as { offset?: unknown };
        const requested = readOffset(sent);
        const digest = readDigest(named);
        const blob = digest === undefined ? undefined : await blobs.read(admitted, digest);
        if (!blob) throw new ApiError('not_found');
        const offset = Math.min(requested, blob.size);
        const isDirect = blob.size - offset > directFrom && head.headers[followsHeader] === 'yes';
        const location = isDirect ? await blob.address?.() : undefined;
        if (location !== undefined) {
          await blob[Symbol.asyncDispose]();
          return { status: 307, headers: { location, 'cache-control': 'no-store' }, content: {} };
        }
        const content = Readable.from(piecesOf(blob, offset), {
          objectMode: false,
          highWaterMark: pieceSize,
        });
        content.once('close', () => void blob[Symbol.asyncDispose]());
        const headers = { 'content-length': String(blob.size - offset), 'content-type': 'application/octet-stream' };
        return { headers, content };
      },
    },
    {
      method: 'POST',
      path: '/runner/blobs',
      async handle({ admitted, head }) {
        const claim = readClaimHeader(head.headers);
        return { content: await blobs.store(admitted, claim, arriving(head.raw)) };
      },
    },
    {
      method: 'POST',
      path: '/runner/artifacts',
      async handle({ admitted, head }) {
        const claim = readClaimHeader(head.headers);
        return { content: await blobs.storeFiles(admitted, claim, arriving(head.raw)) };
      },
    },
  ];
}
