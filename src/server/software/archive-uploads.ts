import { sql } from 'kysely';
import { piecesOf, type Blobs } from '../db/blobs.ts';
import { doomSent } from '../db/doomed-blobs.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { ArchiveUploadRow } from '../db/schema.ts';
import { most } from '../../shared/domain/bounds.ts';
import type { IdSource } from '../../shared/lib/ids.ts';

/**
 * Source archives that arrive in several requests, because connections break. Each part is a blob with its own row. So
 * every server can continue an upload, and a killed server loses only the part in transit.
 */

const day = 24 * 60 * 60 * 1000;
const usualPartSize = 4 * 1024 * 1024;

/** Half of the allowed parts are enough for the bytes. The other half is for parts that are cut short. */
export function partSizeOf({ size }: Pick<ArchiveUploadRow, 'size'>): number {
  return Math.max(usualPartSize, Math.ceil((2 * Number(size)) / most.archiveParts));
}

export function expiryOf({ created_at: created }: Pick<ArchiveUploadRow, 'created_at'>): number {
  return Number(created) + day;
}

export async function openUpload(
  { db, trx, ids }: { db: Database; trx: Transaction; ids: IdSource },
  dependencyId: bigint,
  size: number,
): Promise<ArchiveUploadRow> {
  // If two uploads begin at once, the second replaces the first.
  await db.locked(trx.selectFrom('dependencies').select('id').where('id', '=', dependencyId), 'dependencies').execute();
  await dropUpload(trx, dependencyId);
  const row = { id: ids.next(), dependency_id: dependencyId, size: BigInt(size), received: 0n, complete: 0 };
  const upload = { ...row, created_at: BigInt(Date.now()) };
  await trx.insertInto('archive_uploads').values(upload).execute();
  return upload;
}

export async function findUpload(db: Queries, dependencyId: bigint, id: bigint): Promise<ArchiveUploadRow | undefined> {
  const uploads = db.selectFrom('archive_uploads').selectAll().where('dependency_id', '=', dependencyId);
  return uploads
    .where('id', '=', id)
    .where('created_at', '>', BigInt(Date.now() - day))
    .executeTakeFirst();
}

/** Does nothing if another request added a part first, or the upload has all the parts it may have. */
export async function addPart(
  trx: Transaction,
  { id }: Pick<ArchiveUploadRow, 'id'>,
  position: bigint,
  { digest, size }: { digest: string; size: number },
): Promise<'added' | 'elsewhere' | 'full'> {
  const { numUpdatedRows } = await trx
    .updateTable('archive_uploads')
    .set({ received: position + BigInt(size) })
    .where('id', '=', id)
    .where('received', '=', position)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return 'elsewhere';
  const parts = trx.selectFrom('archive_parts').where('upload_id', '=', id);
  const { number } = await parts.select(sql<bigint>`count(*)`.as('number')).executeTakeFirstOrThrow();
  if (number >= BigInt(most.archiveParts)) return 'full';
  await trx.insertInto('archive_parts').values({ upload_id: id, position, digest }).execute();
  return 'added';
}

export async function* arrivedContent(db: Queries, blobs: Blobs, uploadId: bigint): AsyncGenerator<Buffer> {
  const parts = db.selectFrom('archive_parts').select('digest').where('upload_id', '=', uploadId);
  for (const { digest } of await parts.orderBy('position').execute()) {
    await using blob = await blobs.open(digest);
    yield* piecesOf(blob);
  }
}

/** The upload stays until it expires, for a caller whose connection broke before the response. */
export async function completeUpload(trx: Transaction, id: bigint): Promise<boolean> {
  const open = trx.updateTable('archive_uploads').set({ complete: 1 }).where('id', '=', id);
  const { numUpdatedRows } = await open.where('complete', '=', 0).executeTakeFirst();
  await dropParts(trx, id);
  return numUpdatedRows === 1n;
}

export async function dropUpload(trx: Transaction, dependencyId: bigint): Promise<void> {
  const uploads = trx.selectFrom('archive_uploads').select('id').where('dependency_id', '=', dependencyId);
  for (const { id } of await uploads.execute()) {
    await dropParts(trx, id);
    await trx.deleteFrom('archive_uploads').where('id', '=', id).execute();
  }
}

async function dropParts(trx: Transaction, uploadId: bigint): Promise<void> {
  const gone = trx.deleteFrom('archive_parts').where('upload_id', '=', uploadId).returning('digest');
  const digests = (await gone.execute()).map(({ digest }) => digest);
  await doomSent(trx, ...digests.toSorted());
}

export async function forgetOldArchiveUploads(db: Database, now = Date.now()): Promise<void> {
  await db.transaction(async (trx) => {
    const old = trx.selectFrom('archive_uploads').select(['id', 'dependency_id']);
    const expired = old.where('created_at', '<=', BigInt(now - day)).orderBy('id');
    for (const upload of await db.skipLocked(expired, 'archive_uploads').execute())
      await dropUpload(trx, upload.dependency_id);
  });
}
