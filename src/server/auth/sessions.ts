import type { Database, Queries, Transaction } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import { keepNewest } from './newest.ts';

/**
 * The token is in a cookie. A session ends on sign-out, two weeks after the sign-in, or when the password changes. It
 * is inactive while the user is suspended.
 */
export const sessionSeconds = 14 * 24 * 60 * 60;

export type Person = Readonly<UserRow>;

export async function beginSession(trx: Transaction, ids: IdSource, userId: bigint): Promise<string> {
  const token = randomSecret('hrn');
  const expiresAt = BigInt(Date.now() + sessionSeconds * 1000);
  const row = { id: ids.next(), token_hash: hashSecret(token), user_id: userId, expires_at: expiresAt };
  await trx.insertInto('sessions').values(row).execute();
  await keepNewest(trx, 'sessions', userId);
  return token;
}

export async function personOf(db: Queries, token: string): Promise<Person | undefined> {
  const found = await db
    .selectFrom('sessions as s')
    .innerJoin('users as u', 'u.id', 's.user_id')
    .selectAll('u')
    .select('s.expires_at')
    .where('s.token_hash', '=', hashSecret(token))
    .executeTakeFirst();
  return found && found.expires_at > BigInt(Date.now()) && found.suspended === 0 ? found : undefined;
}

export async function endSession(trx: Transaction, token: string): Promise<boolean> {
  const ended = await trx.deleteFrom('sessions').where('token_hash', '=', hashSecret(token)).executeTakeFirst();
  return ended.numDeletedRows === 1n;
}

export async function endSessionsOf(trx: Transaction, userId: bigint): Promise<void> {
  await trx.deleteFrom('sessions').where('user_id', '=', userId).execute();
}

export async function forgetOldSessions(db: Database): Promise<void> {
  const now = BigInt(Date.now());
  await db.transaction((trx) => trx.deleteFrom('sessions').where('expires_at', '<=', now).execute());
}
