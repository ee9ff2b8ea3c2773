import { sql } from 'kysely';
import { isLockTimeout, type Database, type Transaction } from '../db/open.ts';

/**
 * Inserts nothing if the turn exists: on PostgreSQL, an insert that finds a row waits for a claim that changes it. The
 * statement is an insert even then, so that `forgetTurns` cannot remove the turn before the job is stored.
 */
export async function joinAccountTurns(trx: Transaction, account: bigint): Promise<void> {
  const known = trx.selectFrom('queue_turns').select('turn').where('account_id', '=', account);
  await trx
    .insertInto('queue_turns')
    .columns(['account_id', 'turn'])
    .expression(
      trx
        .selectNoFrom([sql<bigint>`cast(${account} as bigint)`.as('account_id'), sql.lit(0n).as('turn')])
        .where((where) => where.not(where.exists(known))),
    )
    .onConflict((conflict) => conflict.column('account_id').doNothing())
    .execute();
}

/**
 * An account that returns counts as the longest waiting, which is correct. While another transaction adds or removes
 * jobs, this gives up until the next run, so no transaction waits.
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
