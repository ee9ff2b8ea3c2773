import { accountRoute, uploadRoute } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import { ApiError } from '../../shared/errors.ts';
import { isMultipart, onlyFile, type SentFile } from '../http/multipart.ts';
import type { Incoming } from '../http/route.ts';
import { canTakeArchive, compileAgain, takeArchive, type Archive } from '../software/dependencies.ts';
import { archiveKind, archiveTypes, headSize, type ArchiveKind } from '../../shared/domain/source-archives.ts';
import { dependencyRecord, uploadedDependencyRecord } from '../../shared/records/dependency.ts';
import { writeContextOf } from './common.ts';
import { dependencies } from './dependencies.ts';
import { reloaded, uploadedView, viewWithRelated } from './dependency-views.ts';

const clientDefaults = new Set(['', 'application/x-www-form-urlencoded']);

function contentTypeOf(declared: string, kind: ArchiveKind): string {
  const [type = ''] = declared.split(';', 1);
  return clientDefaults.has(type.trim().toLowerCase()) || declared.length > 255 ? archiveTypes[kind] : declared;
}

const field = 'archive';

async function archiveIn(upload: AsyncIterable<Buffer>, headers: Incoming['headers']): Promise<SentFile> {
  const contentType = String(headers['content-type'] ?? '').trim();
  return isMultipart(contentType) ? onlyFile(upload, contentType, field) : { contentType, content: upload };
}

/** The first bytes determine the type before anything is stored. */
export async function storeArchive(blobs: Blobs, { contentType, content }: SentFile): Promise<Archive> {
  const arriving = content[Symbol.asyncIterator]();
  try {
    const head = await headOf(arriving);
    const kind = await kindOf(head);
    const { digest, size } = await blobs.put(whole(head, arriving));
    return { digest, kind, contentType: contentTypeOf(contentType, kind), size: BigInt(size) };
  } finally {
    await arriving.return?.();
  }
}

export async function kindOf(head: Buffer): Promise<ArchiveKind> {
  if (head.length === 0) throw new ApiError('is_blank', field);
  const kind = await archiveKind(head);
  if (kind === undefined) throw new ApiError('invalid_format', field);
  return kind;
}

export async function headOf(arriving: AsyncIterator<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (let held = 0; held < headSize;) {
    const next = await arriving.next();
    if (next.done) break;
    pieces.push(next.value);
    held += next.value.length;
  }
  return Buffer.concat(pieces);
}

export async function* whole(head: Buffer, arriving: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield head;
  for (let next = await arriving.next(); !next.done; next = await arriving.next()) yield next.value;
}

export const routes = [
  uploadRoute({
    method: 'POST',
    path: '/dependencies/:dependency_id/archive',
    access: 'users',
    inOrganisation: 'maintainer',
    scope: 'dependencies',
    makesWork: true,
    summary:
      'Upload the source of a dependency, which is compiled next: the body is a tar (plain, gzip, bzip2, xz or zstd) or zip archive, or a form with it',
    uploads: { types: Object.values(archiveTypes), field },
    answer: uploadedDependencyRecord,
    load: dependencies.load,
    audit: { action: 'dependency.uploaded' },
    async handle({ database, ids, observers, blobs, headers, upload, take, dependency }) {
      if (!canTakeArchive(dependency)) throw new ApiError('resource_temporary_unavailable');
      const archive = await storeArchive(blobs, await archiveIn(upload, headers));
      return take(async (trx) => {
        // Another upload was accepted first. The unused blob is removed later.
        if (!(await takeArchive({ db: database, trx, ids, observers }, dependency, archive)))
          throw new ApiError('resource_temporary_unavailable');
        return uploadedView(await reloaded(trx, dependency));
      });
    },
  }),
  accountRoute({
    ...dependencies.ofOne,
    method: 'POST',
    path: '/dependencies/:dependency_id/compile',
    makesWork: true,
    summary: 'Compile the uploaded source again, with the dependency’s present settings',
    answer: dependencyRecord,
    audit: { action: 'dependency.compiled_again', subject: ({ dependency }) => dependency },
    async handle(call) {
      const { db, dependency } = call;
      // Either nothing was uploaded yet, or the archive is being compiled.
      if (!(await compileAgain(writeContextOf(call), dependency))) throw new ApiError('resource_temporary_unavailable');
      return viewWithRelated(db, await reloaded(db, dependency));
    },
  }),
];
