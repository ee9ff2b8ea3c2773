import { sql } from 'kysely';
import type { Database } from '../db/open.ts';

/**
 * An account's turn is written down with its first job and would stay for ever. One without jobs is forgotten: when it
 * comes back, it is served as one that has waited longest, which it has.
 */
export async function forgetTurns(db: Database): Promise<void> {
  await db.transaction(async (trx) => {
    // Whoever enqueues at this moment relies on the row that it found.
    await db.holdTable(trx, 'queue_turns');
    await trx
      .deleteFrom('queue_turns')
      .where(sql<boolean>`not exists (select 1 from jobs where jobs.account_id = queue_turns.account_id)`)
      .execute();
  });
}
