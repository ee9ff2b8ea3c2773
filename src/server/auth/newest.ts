import type { Transaction } from '../db/open.ts';
import { mostKept } from '../../shared/domain/bounds.ts';

/** Deletes the oldest rows beyond the limit, so that forgotten rows do not stay for ever. */
export async function keepNewest(trx: Transaction, table: keyof typeof mostKept, userId: bigint): Promise<void> {
  await trx
    .deleteFrom(table)
    .where('user_id', '=', userId)
    .where('id', '<=', (of) =>
      of
        .selectFrom(table)
        .select('id')
        .where('user_id', '=', userId)
        .orderBy('id', 'desc')
        .limit(1)
        .offset(mostKept[table]),
    )
    .execute();
}
