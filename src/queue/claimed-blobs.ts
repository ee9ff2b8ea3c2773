import type { Queries, Transaction } from '../db/open.ts';
import { findHeld } from './statements.ts';

/** What the order for a claimed job names lies with the claim, and goes with it. */
export async function nameBlobs(trx: Transaction, claim: string, digests: readonly string[]): Promise<void> {
  const named = { named_blobs: JSON.stringify(digests) };
  await trx.updateTable('jobs').set(named).where('claim', '=', claim).execute();
}

/** Whether an order that somebody holds at the moment names this blob. */
export async function isNamedTo(db: Queries, holder: string, digest: string): Promise<boolean> {
  const held = await findHeld(db, { holder });
  return held.some(({ named_blobs: named }) => named !== null && (JSON.parse(named) as string[]).includes(digest));
}

/** Notes what was stored under a claim; false when the claim is not the holder's any more. */
export async function noteStored(trx: Transaction, holder: string, claim: string, digest: string): Promise<boolean> {
  const stored = trx.updateTable('jobs').set({ stored_blob: digest }).where('claim', '=', claim);
  return (await stored.where('holder', '=', holder).executeTakeFirst()).numUpdatedRows === 1n;
}
