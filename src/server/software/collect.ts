import { sql } from 'kysely';
import type { Blobs } from '../db/blobs.ts';
import { spareBlob, youngMs } from '../db/doomed-blobs.ts';
import type { Database } from '../db/open.ts';
import { blobColumns } from '../db/schema.ts';

/** A blob gets its reference within moments. The hour also covers a server that stops in between. */
const hour = 60 * 60 * 1000;

export async function collectBlobs(db: Database, blobs: Blobs, age = hour, stopping?: AbortSignal): Promise<number> {
  return blobs.collect(age, async (digests) => {
    const wanted = new Set<string>();
    for (let at = 0; at < digests.length; at += 500) {
      stopping?.throwIfAborted();
      const some = digests.slice(at, at + 500);
      for (const digest of await referredTo(db, some)) wanted.add(digest);
    }
    return wanted;
  });
}

const atOnce = 100;

/** A log being packed refers to its blob a moment after storing it, so while any log is packed, all removals wait. */
export async function removeDoomedBlobs(db: Database, blobs: Blobs, age = youngMs): Promise<number> {
  const due = db.read
    .selectFrom('doomed_blobs')
    .selectAll()
    .where('remove_after', '<=', BigInt(Date.now() + youngMs - age));
  let removed = 0;
  for (const { digest, remove_after: after } of await due.limit(atOnce).execute()) {
    let isReferredTo = false;
    const isWanted = async (): Promise<boolean> => {
      if (await isPacking(db)) return true;
      isReferredTo = (await referredTo(db, [digest])).length > 0;
      return isReferredTo;
    };
    const fate = await blobs.remove(digest, isWanted, after === 0n ? undefined : age);
    if (fate === 'removed') removed += 1;
    if (fate === 'young' || (fate === 'wanted' && !isReferredTo)) continue; // the next run checks it again
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
