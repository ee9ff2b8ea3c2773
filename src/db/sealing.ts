import { sql } from 'kysely';
import type { Vault } from '../lib/vault.ts';
import type { Transaction } from './open.ts';

/**
 * Seals a value for a row that this transaction writes. The rotation of the master key waits for all open transactions,
 * because they may still write values sealed with the old key (reseal.ts). PostgreSQL knows a transaction only from its
 * first query, so a query is sent before anything is sealed.
 */
export async function sealIn(trx: Transaction, vault: Vault, text: string, place: string): Promise<string> {
  await sql`select 1`.execute(trx);
  return vault.seal(text, place);
}
