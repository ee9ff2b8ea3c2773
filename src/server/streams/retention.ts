import type { Database, Transaction } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';

const day = 24 * 60 * 60 * 1000;
/** Small transactions, so that other transactions get their turn in between. */
const atOnce = 100;

/**
 * The record stays, and a line replaces its log, so that it does not look like a build without output. A log is
 * completed after it began, so the old logs have the lowest ids. Few other logs are between them: logs of dependencies
 * and of rerun requests.
 */
export async function forgetOldLogs(db: Database, days: number, now = Date.now()): Promise<number> {
  if (days === 0) return 0;
  const before = BigInt(now - days * day);
  let forgotten = 0;
  for (let after = 0n; ;) {
    const old = await db.read
      .selectFrom('logs')
      .select('id')
      .where('id', '>', after)
      .where('id', '<', firstIdAt(Number(before)))
      .where('completed_at', '<', before)
      .orderBy('id')
      .limit(atOnce)
      .execute();
    const last = old.at(-1);
    if (!last) return forgotten;
    await db.transaction(async (trx) => {
      for (const { id } of old) if (await forget(trx, id, before, noticeFor(days))) forgotten += 1;
    });
    after = last.id;
  }
}

/** Skips a log that was restarted in between. */
async function forget(trx: Transaction, id: bigint, before: bigint, notice: Buffer): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('logs')
    .set({ size: BigInt(notice.length), blob: null, completed_at: null })
    .set({ line_breaks: 1n, line_state: '', began_at: null, said_at: null })
    .where('id', '=', id)
    .where('complete', '=', 1)
    .where('completed_at', '<', before)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return false;
  await trx.deleteFrom('log_chunks').where('log_id', '=', id).execute();
  await trx.deleteFrom('log_marks').where('log_id', '=', id).execute();
  await trx.deleteFrom('log_indexes').where('log_id', '=', id).execute();
  await trx.insertInto('log_chunks').values({ log_id: id, start: 0n, bytes: notice }).execute();
  return true;
}

function noticeFor(days: number): Buffer {
  return Buffer.from(`This log was deleted: this server stores logs for ${days === 1 ? 'a day' : `${days} days`}.\n`);
}
