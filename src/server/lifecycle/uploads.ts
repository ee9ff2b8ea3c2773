import { doomStoredUnder } from '../db/doomed-blobs.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { UploadRow } from '../db/schema.ts';
import { projectTopic, subjectTopic } from './write-context.ts';

/**
 * Files of finished builds that are still at their runners, because the blob store could not be reached. A row is the
 * runner's right to upload them, under the claim of the build. The build shows that they are missing, or why some of
 * them are lost. Before anything is changed, the row is locked, as the job is for a running build.
 */

const day = 24 * 60 * 60 * 1000;
/** A runner that is alive gives up before that (runner/deliver-outbox.ts). */
const longestMs = 8 * day;

/** Called in the transaction in which the build ends. A runner reports that once. */
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

/** Also locks it until the transaction is over. */
export async function holdUpload(db: Database, trx: Transaction, claim: string): Promise<UploadRow | undefined> {
  return db.locked(trx.selectFrom('uploads').selectAll().where('claim', '=', claim), 'uploads').executeTakeFirst();
}

/** Records the blob that was stored for it, instead of an earlier one. */
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

/**
 * Nothing of the build is missing any more: all of it has arrived, or some is lost, for a reason in one word. The blob
 * is removed unless something else refers to it.
 */
export async function endUpload(db: Database, trx: Transaction, upload: Ending, lost = ''): Promise<void> {
  const { id } = upload;
  await doomStoredUnder(trx, upload);
  await trx.deleteFrom('uploads').where('id', '=', id).execute();
  const build = trx.updateTable('builds').set({ uploads: lost }).where('id', '=', id).returning('project_id');
  const { project_id: project } = await build.executeTakeFirstOrThrow();
  for (const topic of [projectTopic(project), subjectTopic(id)]) await db.announce(trx, topic);
}

/** The runner's token was taken back, so its files are lost. */
export async function loseUploadsOf(db: Database, trx: Transaction, holder: string): Promise<void> {
  const theirs = endingsIn(trx).where('holder', '=', holder);
  for (const upload of await db.locked(theirs, 'uploads').execute()) await endUpload(db, trx, upload, 'runner_gone');
}

/** The project is about to be deleted. */
export async function dropUploads(db: Database, trx: Transaction, projectId: bigint): Promise<void> {
  const builds = trx.selectFrom('builds').select('id').where('project_id', '=', projectId);
  for (const upload of await db.locked(endingsIn(trx).where('id', 'in', builds), 'uploads').execute())
    await doomStoredUnder(trx, upload);
}

function endingsIn(trx: Transaction) {
  return trx.selectFrom('uploads').select(['id', 'claim', 'account_id', 'stored_blob', 'stored_bytes']).orderBy('id');
}

/** Gives up files that no runner has uploaded in time. */
export async function forgetOldUploads(db: Database, now = Date.now()): Promise<void> {
  await db.transaction(async (trx) => {
    const old = endingsIn(trx).where('created_at', '<', BigInt(now - longestMs));
    for (const upload of await db.skipLocked(old, 'uploads').execute()) await endUpload(db, trx, upload, 'runner_gone');
  });
}
