import { sql } from 'kysely';
import type { Vault } from '../lib/vault.ts';
import type { Transaction } from './open.ts';

/**
 * Seals a value for a row that this transaction writes. The rotation of the master key waits for all who may still write
 * what they sealed with the old key, and goes by the transactions that the database has open (reseal.ts). PostgreSQL hears
 * of a transaction with the first thing that is asked in it: so something is asked before anything is sealed.
 */
export async function sealIn(trx: Transaction, vault: Vault, text: string, place: string): Promise<string> {
  await sql`select 1`.execute(trx);
  return vault.seal(text, place);
}
