import type { Insertable } from 'kysely';
import { createYield } from '../../shared/lib/event-loop.ts';
import type { Transaction } from './open.ts';
import type { Schema } from './schema.ts';

/** A statement takes a limited number of values, and building a long one blocks the event loop. */
const rowsAtOnce = 64;

export async function insertRows<Table extends keyof Schema>(
  trx: Transaction,
  table: Table,
  rows: readonly Insertable<Schema[Table]>[],
): Promise<void> {
  const turn = createYield();
  for (let at = 0; at < rows.length; at += rowsAtOnce) {
    await trx
      .insertInto(table)
      .values(rows.slice(at, at + rowsAtOnce))
      .execute();
    await turn();
  }
}
