import type { Queries, Transaction } from '../db/open.ts';
import { findHeld } from './statements.ts';

/** The blobs that a claimed job's order names are stored with the claim, and removed with it. */
export async function nameBlobs(trx: Transaction, claim: string, digests: readonly string[]): Promise<void> {
  const named = { named_blobs: JSON.stringify(digests) };
  await trx.updateTable('jobs').set(named).where('claim', '=', claim).execute();
}

/** Whether an order that this holder has at the moment names the blob. */
export async function isNamedTo(db: Queries, holder: string, digest: string): Promise<boolean> {
  const held = await findHeld(db, { holder });
  return held.some(({ named_blobs: named }) => named !== null && (JSON.parse(named) as string[]).includes(digest));
}

/** Notes the blob that was stored under a claim; false when the holder does not have the claim any more. */
export async function noteStored(trx: Transaction, holder: string, claim: string, digest: string): Promise<boolean> {
  const stored = trx.updateTable('jobs').set({ stored_blob: digest }).where('claim', '=', claim);
  return (await stored.where('holder', '=', holder).executeTakeFirst()).numUpdatedRows === 1n;
}
