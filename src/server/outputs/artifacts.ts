import { doomArtifactsOf } from '../db/doomed-blobs.ts';
import { reusedSince, vouchNoMore } from '../lifecycle/reuse.ts';
import type { Database, Transaction } from '../db/open.ts';
import type { ArtifactRow } from '../db/schema.ts';
import { firstIdAt, type IdSource } from '../../shared/lib/ids.ts';

export const mostArtifacts = 10_000;

const day = 24 * 60 * 60 * 1000;
/** Small transactions let other transactions run in between. */
const atOnce = 500;

export type NewArtifact = Omit<ArtifactRow, 'id' | 'created_at'>;

/** Existing files stay. Returns the build's number of files and their total size. */
export async function addArtifacts(
  trx: Transaction,
  ids: IdSource,
  { buildId, files }: { buildId: bigint; files: readonly NewArtifact[] },
): Promise<{ files: number; bytes: number }> {
  const created = { created_at: BigInt(Date.now()) };
  await trx
    .insertInto('artifacts')
    .values(files.map((file) => ({ id: ids.next(), ...file, ...created })))
    .onConflict((conflict) => conflict.columns(['build_id', 'path']).doNothing())
    .execute();
  const all = trx.selectFrom('artifacts').select((of) => [of.fn.countAll().as('files'), of.fn.sum('size').as('bytes')]);
  const sum = await all.where('build_id', '=', buildId).executeTakeFirstOrThrow();
  return { files: Number(sum.files), bytes: Number(sum.bytes) };
}

/** For a build that was lost or cancelled. */
export async function dropArtifacts(trx: Transaction, buildId: bigint): Promise<void> {
  await doomArtifactsOf(trx, buildId);
  await trx.deleteFrom('artifacts').where('build_id', '=', buildId).execute();
}

/**
 * Ids grow with time, so the old files come first. They stay as long as a build of these days was passed because of
 * theirs.
 */
export async function forgetOldArtifacts(db: Database, days: number, now = Date.now()): Promise<number> {
  if (days === 0) return 0;
  const before = firstIdAt(now - days * day);
  let forgotten = 0;
  for (let from = 0n; ;) {
    const old = db.read.selectFrom('artifacts').select(['id', 'build_id']).where('id', '<', before);
    const some = await old.where('id', '>', from).orderBy('id').limit(atOnce).execute();
    const last = some.at(-1);
    if (!last) return forgotten;
    const [first, builds] = [from, [...new Set(some.map(({ build_id: build }) => build))]];
    forgotten += await db.transaction(async (trx) => {
      const inUse = await reusedSince(trx, builds, before);
      await vouchNoMore(
        trx,
        builds.filter((build) => !inUse.has(build)),
      );
      // A transaction that reused one of them meanwhile is over now, and no other can.
      const used = [0n, ...(await reusedSince(trx, builds, before))];
      const gone = trx.deleteFrom('artifacts').where('id', '>', first).where('id', '<=', last.id);
      return Number((await gone.where('build_id', 'not in', used).executeTakeFirst()).numDeletedRows);
    });
    from = last.id;
  }
}
