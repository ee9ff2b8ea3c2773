import { accountRoute, uploadRoute } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import type { ArchiveUploadRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { required, wholeNumber } from '../../shared/records/fields.ts';
import { WithHeaders, type Incoming } from '../http/route.ts';
import { headSize } from '../../shared/domain/source-archives.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import {
  addPart,
  arrivedContent,
  completeUpload,
  dropUpload,
  expiryOf,
  findUpload,
  openUpload,
  partSizeOf,
} from '../software/archive-uploads.ts';
import { canTakeArchive, takeArchive } from '../software/dependencies.ts';
import { uploadRecord, uploadedDependencyRecord, type Upload } from '../../shared/records/dependency.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf } from './common.ts';
import { headOf, kindOf, storeArchive, whole } from './dependency-archives.ts';
import { dependencies } from './dependencies.ts';
import { reloaded, uploadedView } from './dependency-views.ts';

/* Uploads of archives in several requests, as in the IETF's draft-ietf-httpbis-resumable-upload. */

const path = '/dependencies/:dependency_id/uploads/:upload_id';

function view(upload: ArchiveUploadRow): Upload {
  const { id, received, size, complete } = upload;
  const expires = timestamp(expiryOf(upload));
  return {
    ...withIdString('id', id),
    offset: Number(received),
    size: Number(size),
    complete: complete === 1,
    expires_at: expires,
  };
}

function headersOf(upload: ArchiveUploadRow): Record<string, string> {
  const seconds = Math.max(0, Math.floor((expiryOf(upload) - Date.now()) / 1000));
  return {
    'upload-offset': String(upload.received),
    'upload-complete': upload.complete === 1 ? '?1' : '?0',
    'upload-limit': `max-size=${upload.size}, max-age=${seconds}`,
  };
}

type InPath = Parameters<typeof dependencies.load>[0] & { params: { upload_id: bigint } };

async function load(call: InPath) {
  const { dependency } = await dependencies.load(call);
  return { dependency, open: orNotFound(await findUpload(call.db, dependency.id, call.params.upload_id)) };
}

const partial = 'application/partial-upload';

/** Refuses any type but a part's. A multipart form, for example, would otherwise end up in the archive. */
function checkType(headers: Incoming['headers']): void {
  const [type = ''] = String(headers['content-type'] ?? '').split(';', 1);
  if (type.trim().toLowerCase() !== partial)
    throw ApiError.ofHttp(415, 'invalid_format', 'content_type', { 'accept-patch': partial });
}

const unavailable = () => new ApiError('resource_temporary_unavailable');

function offsetIn(headers: Incoming['headers']): bigint {
  const sent = headers['upload-offset'];
  if (sent === undefined) throw new ApiError('is_blank', 'upload_offset');
  if (typeof sent !== 'string' || !/^[0-9]{1,15}$/.test(sent)) throw new ApiError('invalid_format', 'upload_offset');
  return BigInt(sent);
}

const otherOffset = (upload: ArchiveUploadRow): ApiError =>
  ApiError.ofHttp(409, 'invalid_format', 'upload_offset', headersOf(upload));

/** Refuses an unknown type of archive, if enough bytes arrived together to recognize it. */
async function* recognized(body: AsyncIterable<Buffer>, size: bigint): AsyncGenerator<Uint8Array> {
  const arriving = body[Symbol.asyncIterator]();
  try {
    const head = await headOf(arriving);
    if (head.length >= headSize || BigInt(head.length) >= size || head.length === 0) await kindOf(head);
    yield* whole(head, arriving);
  } finally {
    await arriving.return?.();
  }
}

/** Each part counts once it is stored. If a body breaks off, its bytes are stored before the error is thrown. */
async function append(
  { database, blobs }: { database: Database; blobs: Blobs },
  upload: ArchiveUploadRow,
  body: AsyncIterable<Buffer>,
): Promise<ArchiveUploadRow> {
  const content = upload.received === 0n ? recognized(body, upload.size) : body;
  const arriving = content[Symbol.asyncIterator]();
  let brokenOff: Error | undefined;
  const next = async (): Promise<Uint8Array | undefined> => {
    try {
      const step = await arriving.next();
      return step.done === true ? undefined : step.value;
    } catch (error) {
      brokenOff = error as Error;
      return undefined;
    }
  };
  let { received } = upload;
  let piece = await next();
  async function* part(): AsyncGenerator<Uint8Array> {
    for (let held = 0; piece !== undefined && held < partSizeOf(upload); piece = await next()) {
      held += piece.length;
      if (received + BigInt(held) > upload.size) throw new ApiError('invalid_format', 'archive');
      yield piece;
    }
  }
  try {
    while (piece !== undefined) {
      const stored = await blobs.put(part());
      await database.transaction(async (trx) => {
        const fate = await addPart(trx, upload, received, stored);
        if (fate === 'full') throw new ApiError('is_reserved');
        // Another request stored its part first, or the upload is gone.
        if (fate === 'elsewhere') throw otherOffset(orNotFound(await findUpload(trx, upload.dependency_id, upload.id)));
      });
      received += BigInt(stored.size);
    }
  } finally {
    await arriving.return?.(undefined);
  }
  if (brokenOff) throw brokenOff;
  return { ...upload, received };
}

export const routes = [
  accountRoute({
    ...dependencies.ofOne,
    method: 'POST',
    path: '/dependencies/:dependency_id/uploads',
    makesWork: true,
    summary: 'Begin to upload the source of a dependency in one request or several, replacing an earlier upload',
    body: { size: required(wholeNumber({ min: 1, max: 999_999_999_999_999, fallback: 1 })) },
    creates: 'upload',
    answer: uploadRecord,
    verify: async ({ archiveBytes }, { size = 0 }) => (size > archiveBytes ? { size: ['invalid_format'] } : {}),
    audit: 'nothing',
    async handle(call) {
      const { dependency, input, origin } = call;
      if (!canTakeArchive(dependency)) throw unavailable();
      const upload = await openUpload(writeContextOf(call), dependency.id, input.size);
      const location = `${origin}/dependencies/${dependency.id}/uploads/${upload.id}`;
      return new WithHeaders({ location, ...headersOf(upload) }, view(upload));
    },
  }),
  accountRoute({
    method: 'GET',
    path,
    access: 'users',
    inOrganisation: 'maintainer',
    scope: 'dependencies',
    summary: 'See how much of an upload has arrived; HEAD returns only Upload-Offset and Upload-Complete',

    answer: uploadRecord,
    load,
    handle: async ({ open }) => new WithHeaders(headersOf(open), view(open)),
  }),
  uploadRoute({
    method: 'PATCH',
    path,
    access: 'users',
    inOrganisation: 'maintainer',
    scope: 'dependencies',
    makesWork: true,
    summary:
      'Send the bytes of an upload from Upload-Offset on. Bytes that arrive are stored, even if the connection breaks; after the last byte, the archive is compiled',
    uploads: { types: [partial] },
    answer: uploadedDependencyRecord,
    load,
    audit: { action: 'dependency.uploaded' },
    async handle({ database, ids, observers, blobs, assembling, headers, upload, take, dependency, open }) {
      checkType(headers);
      const offset = offsetIn(headers);
      if (offset !== open.received) throw otherOffset(open);
      if (open.complete === 1) return new WithHeaders(headersOf(open), uploadedView(dependency));
      if (!canTakeArchive(dependency)) throw unavailable();
      if (offset + BigInt(headers['content-length']?.toString() ?? 0) > open.size)
        throw new ApiError('invalid_format', 'archive');
      const arrived = offset === open.size ? open : await append({ database, blobs }, open, upload);
      if (arrived.received < arrived.size) return new WithHeaders(headersOf(arrived), undefined);
      // Concurrent requests for an upload share one assembly, because its archive can be large.
      const assemble = async () => {
        const { id, complete } = orNotFound(await findUpload(database.read, dependency.id, open.id));
        if (complete === 1) return uploadedView(await reloaded(database.read, dependency));
        const content = arrivedContent(database.read, blobs, id);
        const archive = await storeArchive(blobs, { contentType: '', content });
        return take(async (trx) => {
          if (!(await takeArchive({ db: database, trx, ids, observers }, dependency, archive))) throw unavailable();
          if (!(await completeUpload(trx, id))) throw new ApiError('not_found');
          return uploadedView(await reloaded(trx, dependency));
        });
      };
      const begun = assembling.get(open.id) ?? assemble().finally(() => assembling.delete(open.id));
      assembling.set(open.id, begun);
      const taken = await begun;
      return new WithHeaders(headersOf({ ...arrived, complete: 1 }), taken);
    },
  }),
  accountRoute({
    method: 'DELETE',
    path,
    access: 'users',
    inOrganisation: 'maintainer',
    scope: 'dependencies',
    summary: 'Cancel an upload; its bytes are deleted',
    answer: destroyedAnswer,
    load,
    audit: 'nothing',
    async handle({ db, dependency }) {
      await dropUpload(db, dependency.id);
      return destroyed;
    },
  }),
];
