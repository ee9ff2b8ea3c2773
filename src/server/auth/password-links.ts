import type { Queries, Transaction } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';

/**
 * A link works once, within a week. A user has at most one, and any change of the password deletes it. Without a mail
 * server, the operator passes the link on.
 */
const lifetime = 7 * 24 * 60 * 60 * 1000;

export interface PasswordLink {
  token: string;
  expiresAt: bigint;
}

export async function insertLink(trx: Transaction, ids: IdSource, userId: bigint): Promise<PasswordLink> {
  await dropLinkOf(trx, userId);
  const token = randomSecret('hrl');
  const expiresAt = BigInt(Date.now() + lifetime);
  const row = { id: ids.next(), token_hash: hashSecret(token), user_id: userId, expires_at: expiresAt };
  await trx.insertInto('password_links').values(row).execute();
  return { token, expiresAt };
}

/** Undefined if the link was used, replaced, or is too old. */
export async function ownerOfLink(db: Queries, token: string): Promise<Readonly<UserRow> | undefined> {
  return db
    .selectFrom('password_links as l')
    .innerJoin('users as u', 'u.id', 'l.user_id')
    .selectAll('u')
    .where('l.token_hash', '=', hashSecret(token))
    .where('l.expires_at', '>', BigInt(Date.now()))
    .where('u.suspended', '=', 0)
    .executeTakeFirst();
}

/** False if the link was already deleted: of two concurrent uses, one gets false. */
export async function useUpLink(trx: Transaction, token: string): Promise<boolean> {
  const result = await trx.deleteFrom('password_links').where('token_hash', '=', hashSecret(token)).executeTakeFirst();
  return result.numDeletedRows === 1n;
}

export async function dropLinkOf(trx: Transaction, userId: bigint): Promise<void> {
  await trx.deleteFrom('password_links').where('user_id', '=', userId).execute();
}
