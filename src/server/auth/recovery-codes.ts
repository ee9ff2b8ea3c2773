import { randomInt } from 'node:crypto';
import type { Transaction } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret } from '../../shared/lib/passwords.ts';

/** In place of a passkey after the password: each is good once. */
const count = 10;
const alphabet = 'abcdefghjkmnpqrstuvwxyz23456789';
const groups = 4;
const groupLength = 4;

/** 79 bits. */
function newCode(): string {
  const letters = Array.from({ length: groups * groupLength }, () => alphabet[randomInt(alphabet.length)]);
  return letters.join('').replace(/(.{4})(?=.)/g, '$1-');
}

/** The returned codes are the only copies. Earlier codes are invalid. */
export async function makeCodes(trx: Transaction, ids: IdSource, userId: bigint): Promise<string[]> {
  await dropCodes(trx, userId);
  const codes = Array.from({ length: count }, newCode);
  const rows = codes.map((code) => ({ id: ids.next(), user_id: userId, code_hash: hashOf(code) }));
  await trx.insertInto('recovery_codes').values(rows).execute();
  return codes;
}

/** False if it is none, or was used. */
export async function useCode(trx: Transaction, userId: bigint, code: string): Promise<boolean> {
  const used = trx.deleteFrom('recovery_codes').where('user_id', '=', userId).where('code_hash', '=', hashOf(code));
  return (await used.executeTakeFirst()).numDeletedRows === 1n;
}

export async function dropCodes(trx: Transaction, userId: bigint): Promise<void> {
  await trx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
}

/** Users may type it in capitals, with spaces, or without hyphens. */
function hashOf(code: string): string {
  return hashSecret(code.toLowerCase().replaceAll(/[\s-]+/g, ''));
}
