import { doomStoredUnder } from '../db/doomed-blobs.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { UploadRow } from '../db/schema.ts';
import { projectTopic, subjectTopic } from './write-context.ts';

/**
 * Files of finished builds that are still on their runners, because blob storage was unreachable. A row is the runner's
 * right to upload them under the build's claim. Lock it before any change.
 */

const day = 24 * 60 * 60 * 1000;
/** A live runner gives up before that (runner/deliver-outbox.ts). */
const longestMs = 8 * day;

/** In the transaction that ends the build. A runner reports it once. */
export async function awaitUploads(
  trx: Transaction,
  { claim, holder, buildId, accountId }: { claim: string; holder: string; buildId: bigint; accountId: bigint },
): Promise<void> {
  const row = { id: buildId, claim, holder, account_id: accountId, stored_blob: null, stored_bytes: null };
  await trx
    .insertInto('uploads')
    .values({ ...row, created_at: BigInt(Date.now()) })
    .execute();
  await trx.updateTable('builds').set({ uploads: 'pending' }).where('id', '=', buildId).execute();
}

export async function uploadOf(db: Queries, claim: string): Promise<UploadRow | undefined> {
  return db.selectFrom('uploads').selectAll().where('claim', '=', claim).executeTakeFirst();
}

/** Also locks the upload until the transaction ends. */
export async function holdUpload(db: Database, trx: Transaction, claim: string): Promise<UploadRow | undefined> {
  return db.locked(trx.selectFrom('uploads').selectAll().where('claim', '=', claim), 'uploads').executeTakeFirst();
}

export async function noteUploadedBlob(
  trx: Transaction,
  upload: UploadRow,
  { digest, size }: { digest: string; size: number },
): Promise<void> {
  if (upload.stored_blob !== digest) await doomStoredUnder(trx, upload);
  const stored = { stored_blob: digest, stored_bytes: BigInt(size) };
  await trx.updateTable('uploads').set(stored).where('id', '=', upload.id).execute();
}

type Ending = Pick<UploadRow, 'id' | 'claim' | 'account_id' | 'stored_blob' | 'stored_bytes'>;

/** `lost` is a reason in one word. The blob is removed unless it has another reference. */
export async function endUpload(db: Database, trx: Transaction, upload: Ending, lost = ''): Promise<void> {
  const { id } = upload;
  await doomStoredUnder(trx, upload);
  await trx.deleteFrom('uploads').where('id', '=', id).execute();
  const build = trx.updateTable('builds').set({ uploads: lost }).where('id', '=', id).returning('project_id');
  const { project_id: project } = await build.executeTakeFirstOrThrow();
  for (const topic of [projectTopic(project), subjectTopic(id)]) await db.announce(trx, topic);
}

export async function loseUploadsOf(db: Database, trx: Transaction, holder: string): Promise<void> {
  const theirs = endingsIn(trx).where('holder', '=', holder);
  for (const upload of await db.locked(theirs, 'uploads').execute()) await endUpload(db, trx, upload, 'runner_gone');
}

export async function dropUploads(db: Database, trx: Transaction, projectId: bigint): Promise<void> {
  const builds = trx.selectFrom('builds').select('id').where('project_id', '=', projectId);
  for (const upload of await db.locked(endingsIn(trx).where('id', 'in', builds), 'uploads').execute())
    await doomStoredUnder(trx, upload);
}

function endingsIn(trx: Transaction) {
  return trx.selectFrom('uploads').select(['id', 'claim', 'account_id', 'stored_blob', 'stored_bytes']).orderBy('id');
}

export async function forgetOldUploads(db: Database, now = Date.now()): Promise<void> {
  await db.transaction(async (trx) => {
    const old = endingsIn(trx).where('created_at', '<', BigInt(now - longestMs));
    for (const upload of await db.skipLocked(old, 'uploads').execute()) await endUpload(db, trx, upload, 'runner_gone');
  });
}
