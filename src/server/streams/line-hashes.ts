import type { Database, Queries } from '../db/open.ts';

/*
 * A packed log has hashes of its lines, by which runs of a suite are compared. `server/briefs/` makes and reads them.
 */

/** If the log was restarted in between, it has no index now. */
export async function keepLineHashes(db: Database, id: bigint, hashes: Buffer): Promise<void> {
  await db.transaction((trx) =>
    trx.updateTable('log_indexes').set({ line_hashes: hashes }).where('log_id', '=', id).execute(),
  );
}

export async function lineHashesOf(db: Queries, logs: readonly bigint[]): Promise<ReadonlyMap<bigint, Uint8Array>> {
  if (logs.length === 0) return new Map();
  const rows = await db
    .selectFrom('log_indexes')
    .select(['log_id', 'line_hashes'])
    .where('log_id', 'in', logs)
    .where('line_hashes', 'is not', null)
    .execute();
  return new Map(rows.flatMap(({ log_id: id, line_hashes: hashes }) => (hashes === null ? [] : [[id, hashes]])));
}
