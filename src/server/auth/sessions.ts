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

/** After this time, credentials are made only after a new proof, and the issuer's sign-in is checked again. */
export const proofMs = 15 * 60 * 1000;

/** A refresh token that no server has used for so long checks nothing: the issuer was removed from the settings. */
const unseenMs = 60 * 60 * 1000;

export async function beginSession(
  trx: Transaction,
  ids: IdSource,
  userId: bigint,
  { byIssuer = false }: { byIssuer?: boolean } = {},
): Promise<string> {
  const token = randomSecret('hrn');
  const now = Date.now();
  const times = { expires_at: BigInt(now + sessionSeconds * 1000), proven_at: BigInt(now) };
  const row = { id: ids.next(), token_hash: hashSecret(token), user_id: userId, by_issuer: byIssuer ? 1 : 0, ...times };
  await trx.insertInto('sessions').values(row).execute();
  await keepNewest(trx, 'sessions', userId);
  return token;
}

export interface Session {
  person: Person;
  /** The user proved who they are, within `proofMs`. */
  isProven: boolean;
  /** The issuer has to sign the user in again, because it gave nothing with which to ask it. */
  isStale: boolean;
}

/** Undefined if it is over, or its user is refused. */
export async function sessionOf(db: Queries, token: string): Promise<Session | undefined> {
  const found = await db
    .selectFrom('sessions as s')
    .innerJoin('users as u', 'u.id', 's.user_id')
    .leftJoin('identities as i', 'i.user_id', 's.user_id')
    .selectAll('u')
    .select(['s.expires_at', 's.proven_at', 's.by_issuer', 'i.look_at'])
    .where('s.token_hash', '=', hashSecret(token))
    .executeTakeFirst();
  const now = Date.now();
  if (!found || found.expires_at <= BigInt(now) || found.suspended === 1 || found.shut_out !== '') return undefined;
  const isProven = Number(found.proven_at) > now - proofMs;
  const isWatched = found.look_at !== null && Number(found.look_at) > now - unseenMs;
  return { person: found, isProven, isStale: found.by_issuer === 1 && !isProven && !isWatched };
}

/** The user of the session has just proven again who they are. */
export async function proveSession(trx: Transaction, token: string): Promise<void> {
  const proven = { proven_at: BigInt(Date.now()) };
  await trx.updateTable('sessions').set(proven).where('token_hash', '=', hashSecret(token)).execute();
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
