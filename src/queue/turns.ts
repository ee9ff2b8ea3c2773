import { sql } from 'kysely';
import { isLockTimeout, type Database } from '../db/open.ts';

/**
 * An account's turn is stored with its first job and would stay for ever, so turns of accounts without jobs are
 * removed. An account that returns counts as the one that has waited longest, which it has. This runs in a quiet
 * moment: while another transaction adds or removes jobs, it gives up until the next time, and no transaction waits.
 */
export async function forgetTurns(db: Database): Promise<void> {
  try {
    await db.transaction(async (trx) => {
      // A transaction that enqueues at this moment relies on the row that it found.
      await db.holdTable(trx, 'queue_turns', 'give up');
      await trx
        .deleteFrom('queue_turns')
        .where(sql<boolean>`not exists (select 1 from jobs where jobs.account_id = queue_turns.account_id)`)
        .execute();
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
  }
}
