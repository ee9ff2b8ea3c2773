import { sql } from 'kysely';
import { isLockTimeout, type Database } from '../db/open.ts';

/**
 * An account's turn is written down with its first job and would stay for ever. One without jobs is forgotten: when it
 * comes back, it is served as one that has waited longest, which it has. Done in a quiet moment: where somebody puts
 * work into the queue or takes it out, it is left for the next time, and nobody waits.
 */
export async function forgetTurns(db: Database): Promise<void> {
  try {
    await db.transaction(async (trx) => {
      // Whoever enqueues at this moment relies on the row that it found.
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
