import { doomSent, doomStoredUnder, type Stored } from '../db/doomed-blobs.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { heldBy } from './leases.ts';

/** The names are removed together with the claim. */
export async function nameBlobs(trx: Transaction, claim: string, digests: readonly string[]): Promise<void> {
  const named = { named_blobs: JSON.stringify(digests) };
  await trx.updateTable('jobs').set(named).where('claim', '=', claim).execute();
}

export async function isNamedTo(db: Queries, holder: string, digest: string): Promise<boolean> {
  const held = await heldBy(db, holder);
  return held.some(({ named_blobs: named }) => named !== null && (JSON.parse(named) as string[]).includes(digest));
}

/** Something else refers to the job's blob from now on. */
export async function releaseStored(trx: Transaction, { id }: Pick<JobRow, 'id'>): Promise<void> {
  await trx.updateTable('jobs').set({ stored_blob: null, stored_bytes: null }).where('id', '=', id).execute();
}

/** If the job no longer has the claim, the blob is unwanted. */
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
