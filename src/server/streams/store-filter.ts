import type { Database } from '../db/open.ts';
import { lineIndex } from './line-index.ts';
import { emptyFilter, packFilter } from './log-filter.ts';
import { isSearchedWhole, piecesOf, readPacked, type SearchParts } from './search.ts';

/** For a packed log. Safe to run twice. */
export async function storeFilter(parts: Omit<SearchParts, 'db'> & { db: Database }, id: bigint): Promise<void> {
  const { db, blobs, searches } = parts;
  const index = await lineIndex({ db: db.read, blobs }, id);
  if (!index || index.log.blob === null) return;
  let filter = emptyFilter();
  if (isSearchedWhole(index.log)) {
    const packed = await readPacked(blobs, index.log.blob);
    ({ filter } = await searches.ask(0n, { filter, packed }, [filter.buffer, packed.buffer]));
  } else {
    for await (const { bytes } of piecesOf({ db: db.read, blobs }, index, 1, index.total))
      ({ filter } = await searches.ask(0n, { filter, bytes }, [filter.buffer, bytes.buffer]));
  }
  // If the log was restarted in between, it has no index now.
  await db.transaction((trx) =>
    trx
      .updateTable('log_indexes')
      .set({ filter: packFilter(filter) })
      .where('log_id', '=', id)
      .execute(),
  );
}
