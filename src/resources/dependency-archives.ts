import { uploadRoute } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import { ApiError } from '../errors.ts';
import type { Incoming } from '../http/route.ts';
import { canTakeArchive, takeArchive, type Archive } from '../lifecycle/dependencies.ts';
import { archiveKind, archiveTypes, headSize, type ArchiveKind } from '../lib/source-archives.ts';
import { loadDependency, reloaded, uploadedAnswer, uploadedView } from './dependency-views.ts';

/** Content types that clients send when nobody told them what they send. */
const clientDefaults = new Set(['', 'application/x-www-form-urlencoded']);

function contentTypeOf(headers: Incoming['headers'], kind: ArchiveKind): string {
  const said = String(headers['content-type'] ?? '').trim();
  const [type = ''] = said.split(';', 1);
  return clientDefaults.has(type.trim().toLowerCase()) || said.length > 255 ? archiveTypes[kind] : said;
}

/** Stores the archive as it arrives. What is none is refused by its first bytes, before any of it is stored. */
async function store(blobs: Blobs, upload: AsyncIterable<Uint8Array>, headers: Incoming['headers']): Promise<Archive> {
  const arriving = upload[Symbol.asyncIterator]();
  try {
    const head = await headOf(arriving);
    if (head.length === 0) throw new ApiError('is_blank', 'archive');
    const kind = await archiveKind(head);
    if (kind === undefined) throw new ApiError('invalid_format', 'archive');
    const { digest, size } = await blobs.put(whole(head, arriving));
    return { digest, kind, contentType: contentTypeOf(headers, kind), size: BigInt(size) };
  } finally {
    await arriving.return?.();
  }
}

async function headOf(arriving: AsyncIterator<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (let held = 0; held < headSize;) {
    const next = await arriving.next();
    if (next.done) break;
    pieces.push(next.value);
    held += next.value.length;
  }
  return Buffer.concat(pieces);
}

async function* whole(head: Buffer, arriving: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield head;
  for (let next = await arriving.next(); !next.done; next = await arriving.next()) yield next.value;
}

export const routes = [
  uploadRoute({
    path: '/dependencies/:dependency_id/archive',
    access: 'users',
    scope: 'dependencies',
    summary:
      'Upload the source of a dependency, which is compiled next: the body is a tar (plain, gzip, bzip2, xz or zstd) or zip archive',
    uploads: Object.values(archiveTypes),
    answer: uploadedAnswer,
    load: loadDependency,
    audit: { action: 'dependency.uploaded' },
    async handle({ database, ids, blobs, headers, upload, take, dependency }) {
      if (!canTakeArchive(dependency)) throw new ApiError('resource_temporary_unavailable');
      const archive = await store(blobs, upload, headers);
      return take(async (trx) => {
        // What arrived while another was taken, nobody refers to; it is collected in time.
        if (!(await takeArchive({ db: database, trx, ids }, dependency, archive)))
          throw new ApiError('resource_temporary_unavailable');
        return uploadedView(await reloaded(trx, dependency));
      });
    },
  }),
];
