import { doomSent, doomStoredUnder, type Stored } from '../db/doomed-blobs.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';

/** The blobs that a claimed job's order names are stored with the claim, and removed with it. */
export async function nameBlobs(trx: Transaction, claim: string, digests: readonly string[]): Promise<void> {
  const named = { named_blobs: JSON.stringify(digests) };
  await trx.updateTable('jobs').set(named).where('claim', '=', claim).execute();
}

/** The jobs that a holder has claimed. */
export function findHeld(db: Queries, holder: string): Promise<JobRow[]> {
  return db.selectFrom('jobs').selectAll().where('claim', 'is not', null).where('holder', '=', holder).execute();
}

/** Whether an order that this holder has at the moment names the blob. */
export async function isNamedTo(db: Queries, holder: string, digest: string): Promise<boolean> {
  const held = await findHeld(db, holder);
  return held.some(({ named_blobs: named }) => named !== null && (JSON.parse(named) as string[]).includes(digest));
}

/**
 * Notes the blob that was stored under a claim, in the place of one that was stored before. Nobody wants it when the
 * claim is not the job's any more.
 */
export async function noteStored(
  trx: Transaction,
  job: (Stored & Pick<JobRow, 'id'>) | undefined,
  { digest, size }: { digest: string; size: number },
): Promise<void> {
  if (!job) return doomSent(trx, digest);
  if (job.stored_blob !== digest) await doomStoredUnder(trx, job);
  const stored = { stored_blob: digest, stored_bytes: BigInt(size) };
  await trx.updateTable('jobs').set(stored).where('id', '=', job.id).execute();
}

export const nothingStored = { stored_blob: null, stored_bytes: null };
