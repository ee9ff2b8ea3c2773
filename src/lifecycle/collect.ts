import { sql } from 'kysely';
import type { Blobs } from '../db/blobs.ts';
import { spareBlob } from '../db/doomed-blobs.ts';
import type { Database } from '../db/open.ts';
import { blobColumns } from '../db/schema.ts';

/** What is stored is referred to within moments; this leaves room for a server that stops in between. */
const hour = 60 * 60 * 1000;

/**
 * Removes the blobs that nothing refers to any more: archives and results that were replaced and that nobody is pinned
 * to, logs of what was deleted.
 */
export async function collectBlobs(db: Database, blobs: Blobs, age = hour): Promise<number> {
  return blobs.collect(age, async (digests) => {
    const wanted = new Set<string>();
    for (let at = 0; at < digests.length; at += 500) {
      const some = digests.slice(at, at + 500);
      for (const digest of await referredTo(db, some)) wanted.add(digest);
    }
    return wanted;
  });
}

const atOnce = 100;

/**
 * Removes the blobs of what was deleted. The same log may have been said elsewhere, so those that something refers to
 * stay. Somebody may also be packing one at this moment, which refers to its blob a moment after it is stored: until
 * nobody is, all wait.
 */
export async function removeDoomedBlobs(db: Database, blobs: Blobs): Promise<number> {
  const doomed = await db.read.selectFrom('doomed_blobs').select('digest').limit(atOnce).execute();
  let removed = 0;
  for (const { digest } of doomed) {
    let isReferredTo = false;
    const isWanted = async (): Promise<boolean> => {
      if (await isPacking(db)) return true;
      isReferredTo = (await referredTo(db, [digest])).length > 0;
      return isReferredTo;
    };
    const fate = await blobs.remove(digest, isWanted);
    if (fate === 'removed') removed += 1;
    if (fate === 'wanted' && !isReferredTo) continue; // it is looked at again
    await db.transaction((trx) => spareBlob(trx, digest));
  }
  return removed;
}

async function isPacking({ read }: Database): Promise<boolean> {
  const packing = read.selectFrom('jobs').select('id').where('kind', '=', 'pack_log').where('claim', 'is not', null);
  return (await packing.limit(1).executeTakeFirst()) !== undefined;
}

async function referredTo({ read }: Database, digests: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const { table, column } of blobColumns) {
    const { rows } = await sql<{ digest: string }>`
      select ${sql.ref(column)} as digest from ${sql.table(table)} where ${sql.ref(column)} in (${sql.join(digests)})
    `.execute(read);
    found.push(...rows.map(({ digest }) => digest));
  }
  return found;
}
