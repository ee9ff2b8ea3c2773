import { sql } from 'kysely';
import { isLockTimeout, type Database, type Transaction } from '../db/open.ts';

/**
 * Gives an account its turn. One that has a turn already is not touched: on PostgreSQL an insert that finds a row waits
 * for the transaction that changes it, which is a claim for this account. It is an insert all the same, so that the turn
 * is not forgotten before the job is there.
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
