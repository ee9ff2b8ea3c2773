import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { UnavailableError } from '../db/unavailable.ts';

/**
 * Limits the unreferenced bytes stored for one account: under claims, for finished builds, replaced but not yet
 * removed, and arriving. On a disk the limit is at most the free room, so other accounts have half of it.
 */
export interface StoredRoom {
  /** Includes replaced blobs of the claim that are not removed yet. */
  isOver(claim: string, most: number): Promise<boolean>;
  /** Throws an UnavailableError at the limit, unless the account has stored no other bytes. */
  counted(account: bigint, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>;
}

/** An account may store the results of this many jobs at the same time. */
const jobsOfAccount = 16;
const checkEvery = 8 * 1024 * 1024;

export function storedRoom({ db, blobs, most }: { db: Database; blobs: Blobs; most: number }): StoredRoom {
  const arriving = new Map<bigint, number>();
  const add = (account: bigint, bytes: number): void => {
    const now = (arriving.get(account) ?? 0) + bytes;
    if (now === 0) arriving.delete(account);
    else arriving.set(account, now);
  };
  const held = async (column: 'claim' | 'account_id', value: string | bigint): Promise<number> => {
    let sum = 0n;
    const of = [column, '=', value] as const;
    const jobs = await db.read.selectFrom('jobs').select('stored_bytes').where('stored_bytes', 'is not', null).where(...of).execute(); // oxfmt-ignore
    const uploads = await db.read.selectFrom('uploads').select('stored_bytes').where('stored_bytes', 'is not', null).where(...of).execute(); // oxfmt-ignore
    const doomed = await db.read.selectFrom('doomed_blobs').select('bytes').where(...of).execute(); // oxfmt-ignore
    for (const { stored_bytes: bytes } of [...jobs, ...uploads]) sum += bytes ?? 0n;
    for (const { bytes } of doomed) sum += bytes;
    return Number(sum);
  };
  /** Throws if the account's other bytes leave no room. */
  const check = async (account: bigint, own: number): Promise<void> => {
    const others = (await held('account_id', account)) + (arriving.get(account) ?? 0) - own;
    if (others === 0) return;
    const mayHave = Math.min(jobsOfAccount * most, (await blobs.room?.()) ?? Infinity);
    if (others >= mayHave || others + own > mayHave)
      throw new UnavailableError('the account reached its storage rate limit');
  };
  return {
    isOver: async (claim, ofClaim) => (await held('claim', claim)) > ofClaim,
    async *counted(account, content) {
      let [own, checked] = [0, 0];
      await check(account, own);
      try {
        for await (const piece of content) {
          own += piece.length;
          add(account, piece.length);
          if (own - checked >= checkEvery) {
            checked = own;
            await check(account, own);
          }
          yield piece;
        }
      } finally {
        add(account, -own);
      }
    },
  };
}
