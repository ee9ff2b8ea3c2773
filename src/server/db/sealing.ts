import type { Vault } from '../../shared/lib/vault.ts';
import type { Transaction } from './open.ts';

/**
 * Seals a value for a row that this transaction writes. The rotation of the master key waits for all open transactions,
 * because they may still write values sealed with the old key (reseal.ts): so nothing is sealed without one.
 */
export async function sealIn(_trx: Transaction, vault: Vault, text: string, place: string): Promise<string> {
  return vault.seal(text, place);
}
