import type { Blobs } from '../db/blobs.ts';
import { doomBlob } from '../db/doomed-blobs.ts';
import type { Database } from '../db/open.ts';
import { compressSeekable } from '../../shared/lib/seekable-zstd.ts';
import { keepIndex, marksOf } from './line-index.ts';
import { findLog, readLog } from './logs.ts';
import { packMarks } from './marks.ts';

/** Safe to run twice. */
export async function packLog(db: Database, blobs: Blobs, id: bigint): Promise<void> {
  const log = await findLog(db.read, id);
  if (!log || !log.complete || log.blob !== null) return;
  const { digest } = await blobs.put(compressSeekable(readLog(db.read, blobs, id, 0n, log.size)));
  const bytes = await packMarks(await marksOf(db.read, id));
  await db.transaction(async (trx) => {
    const packed = trx.updateTable('logs').set({ blob: digest }).where('id', '=', id);
    // The log may have been reopened or restarted in between. Then the packed bytes are incomplete or outdated.
    const same = packed.where('complete', '=', 1).where('size', '=', log.size).where('blob', 'is', null);
    if ((await same.executeTakeFirst()).numUpdatedRows !== 1n) return doomBlob(trx, digest);
    await trx.deleteFrom('log_chunks').where('log_id', '=', id).execute();
    await keepIndex(trx, id, bytes);
  });
}
