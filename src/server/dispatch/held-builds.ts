import type { Runner } from '../auth/runners.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { endUpload, holdUpload, noteUploadedBlob, uploadOf } from '../lifecycle/uploads.ts';
import type { Receipt, UploadReport } from '../../shared/protocol/index.ts';
import { noteStored } from '../queue/claimed-blobs.ts';
import { holdJob, jobOf } from '../queue/leases.ts';
import { keepCache } from './caches.ts';
import type { JobContext } from './job-handler.ts';

/*
 * The right to upload a build's files depends on its claim, even after the build has ended (lifecycle/uploads.ts).
 */

export async function buildUnder(db: Queries, { holder }: Runner, claim: string): Promise<bigint | undefined> {
  const job = await jobOf(db, claim);
  if (job) return job.holder === holder && job.kind === 'run_suite' ? job.subject_id : undefined;
  const upload = await uploadOf(db, claim);
  return upload?.holder === holder ? upload.id : undefined;
}

/** The right lasts at least until the transaction ends. */
export async function holdBuildUnder(
  db: Database,
  trx: Transaction,
  { holder }: Runner,
  claim: string,
): Promise<bigint | undefined> {
  const job = await holdJob(db, trx, claim);
  if (job) return job.holder === holder && job.kind === 'run_suite' ? job.subject_id : undefined;
  const upload = await holdUpload(db, trx, claim);
  return upload?.holder === holder ? upload.id : undefined;
}

/** False if the runner no longer has the right to store it. */
export async function noteBlobUnder(
  db: Database,
  trx: Transaction,
  { runner: { holder }, claim, stored }: { runner: Runner; claim: string; stored: { digest: string; size: number } },
): Promise<boolean> {
  const job = await holdJob(db, trx, claim);
  const upload = job ? undefined : await holdUpload(db, trx, claim);
  if (upload?.holder === holder) {
    await noteUploadedBlob(trx, upload, stored);
    return true;
  }
  const isHeld = job?.holder === holder;
  await noteStored(trx, isHeld ? job : undefined, stored);
  return isHeld;
}

/** The files have arrived, or the runner gives them up. */
export async function endUploads(
  db: Database,
  contextOf: (trx: Transaction) => JobContext,
  { holder }: Runner,
  { claim, cache, lost }: UploadReport,
): Promise<Receipt> {
  // The runner was restarted before its outcome arrived here. If the outcome never arrives, the claim lapses.
  if ((await jobOf(db.read, claim))?.holder === holder) throw new UnavailableError('the build is not over yet');
  return db.transaction(async (trx) => {
    const upload = await holdUpload(db, trx, claim);
    if (upload?.holder !== holder) return { gone: true };
    const { id: buildId } = upload;
    if (cache) await keepCache(contextOf(trx), { buildId, stored: upload, isLate: true }, cache);
    await endUpload(db, trx, upload, lost);
    return { taken: true };
  });
}
