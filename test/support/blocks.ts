import { sql } from 'kysely';
import type { Transaction } from '../../src/server/db/open.ts';

/** In how many blocks of a table and its indexes PostgreSQL has looked for the transaction: the same on every machine. */
export async function blocksOf(trx: Transaction, table: string): Promise<number> {
  const { rows } = await sql<{ blocks: bigint }>`
    select sum(pg_stat_get_xact_blocks_fetched(oid))::bigint as blocks from pg_class
    where relname = ${table} or oid in (select indexrelid from pg_index where indrelid = ${table}::regclass)`.execute(
    trx,
  );
  return Number(rows[0]?.blocks ?? 0n);
}
