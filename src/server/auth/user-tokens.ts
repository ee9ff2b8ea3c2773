import type { Database, Queries, Transaction } from '../db/open.ts';
import type { UserRow, UserTokenRow } from '../db/schema.ts';
import type { Scope } from '../http/route.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import { isTokenForm, splitScopes } from './tokens.ts';

/** Tokens that users make for their own programs. Only the hash is stored. */

/** Announced when one was made. */
export const tokensTopic = 'tokens';

const day = 24 * 60 * 60 * 1000;

/** The owner of a token is told so long before its end, unless the token was made for less than a day. */
const noticeMs = 3 * day;
const noNoticeMs = day;

/** Expired tokens stay in the owner's list for so long. */
const shownMs = 30 * day;

export interface UserToken extends Pick<
  UserTokenRow,
  'id' | 'name' | 'expires_at' | 'last_used_at' | 'last_used_from' | 'created_at'
> {
  scopes: Scope[];
  /** None means all. Deleted projects stay in the list, so that it does not become empty. */
  projects: bigint[];
}

export type NewUserToken = Pick<UserToken, 'name' | 'scopes' | 'projects' | 'expires_at'>;

function projectsIn(text: string): bigint[] {
  return text === '' ? [] : text.split(' ').map(BigInt);
}

function opened({ scopes, project_ids: projects, ...row }: UserTokenRow): UserToken {
  return { ...row, scopes: splitScopes(scopes), projects: projectsIn(projects) };
}

export function userTokensOf(db: Queries, ownerId: bigint): Promise<UserToken[]> {
  const own = db.selectFrom('user_tokens').selectAll().where('owner_id', '=', ownerId).orderBy('id');
  return own.execute().then((rows) => rows.map(opened));
}

/** The returned value is the only copy of the token. */
export async function insertUserToken(
  trx: Transaction,
  ids: IdSource,
  ownerId: bigint,
  { scopes, projects, ...made }: NewUserToken,
): Promise<{ made: UserToken; token: string }> {
  const token = randomSecret('hrt');
  const now = BigInt(Date.now());
  const row: UserTokenRow = {
    id: ids.next(),
    owner_id: ownerId,
    ...made,
    token_hash: hashSecret(token),
    scopes: scopes.join(' '),
    project_ids: projects.join(' '),
    last_used_at: null,
    last_used_from: null,
    created_at: now,
    tell_at: isTold({ created_at: now, expires_at: made.expires_at }) ? made.expires_at - BigInt(noticeMs) : null,
  };
  await trx.insertInto('user_tokens').values(row).execute();
  return { made: opened(row), token };
}

export async function deleteUserToken(trx: Transaction, id: bigint): Promise<void> {
  await trx.deleteFrom('user_tokens').where('id', '=', id).execute();
}

/** In order, as they are locked when their use is written down. */
export async function dropUserTokensOf(trx: Transaction, ownerId: bigint): Promise<void> {
  for (const { id } of await userTokensOf(trx, ownerId)) await deleteUserToken(trx, id);
}

export async function forgetOldUserTokens(db: Database): Promise<void> {
  const limit = BigInt(Date.now() - shownMs);
  await db.transaction((trx) => trx.deleteFrom('user_tokens').where('expires_at', '<=', limit).execute());
}

type Lifetime = Pick<UserTokenRow, 'created_at' | 'expires_at'>;

function isTold({ created_at: from, expires_at: end }: Lifetime): boolean {
  return end - from >= BigInt(noNoticeMs);
}

/** Tokens of which the owner should know that they end soon. */
export async function endingTokensOf(db: Queries, ownerId: bigint): Promise<UserToken[]> {
  const now = BigInt(Date.now());
  const own = await userTokensOf(db, ownerId);
  return own.filter((token) => isTold(token) && token.expires_at > now && token.expires_at <= now + BigInt(noticeMs));
}

export interface EndingToken extends Pick<UserTokenRow, 'id' | 'name' | 'expires_at'> {
  email: string;
}

/** Each token is claimed once, so that no owner is told twice. Those that ended meanwhile are left out. */
export async function claimEndingTokens(trx: Transaction, most: number): Promise<EndingToken[]> {
  const now = BigInt(Date.now());
  const due = await trx
    .selectFrom('user_tokens as t')
    .innerJoin('users as u', 'u.id', 't.owner_id')
    .select(['t.id', 't.name', 't.expires_at', 't.tell_at', 'u.email', 'u.suspended', 'u.shut_out'])
    .where('t.tell_at', '<=', now)
    .orderBy('t.id')
    .limit(most)
    .execute();
  const claimed: EndingToken[] = [];
  for (const { tell_at: at, suspended, shut_out: shutOut, ...token } of due) {
    const { numUpdatedRows } = await trx
      .updateTable('user_tokens')
      .set({ tell_at: null })
      .where('id', '=', token.id)
      .where('tell_at', '=', at)
      .executeTakeFirst();
    if (numUpdatedRows === 1n && token.expires_at > now && suspended === 0 && shutOut === '') claimed.push(token);
  }
  return claimed;
}

/** The mail server did not take the letter. */
export async function tellLater(trx: Transaction, id: bigint, at: number): Promise<void> {
  await trx
    .updateTable('user_tokens')
    .set({ tell_at: BigInt(at) })
    .where('id', '=', id)
    .execute();
}

interface UserTokenHolder {
  user: UserRow;
  id: bigint;
  name: string;
  scopes: ReadonlySet<Scope>;
  projects: 'all' | ReadonlySet<bigint>;
}

/** Undefined if there is none, or it has expired. */
export async function findUserToken(db: Queries, token: string): Promise<UserTokenHolder | undefined> {
  if (!isTokenForm(token)) return undefined;
  const found = await db
    .selectFrom('user_tokens as t')
    .innerJoin('users as u', 'u.id', 't.owner_id')
    .selectAll('u')
    .select(['t.id as token_id', 't.name', 't.scopes', 't.project_ids'])
    .where('t.token_hash', '=', hashSecret(token))
    .where('t.expires_at', '>', BigInt(Date.now()))
    .executeTakeFirst();
  if (!found) return undefined;
  const projects = projectsIn(found.project_ids);
  return {
    user: found,
    id: found.token_id,
    name: found.name,
    scopes: new Set(splitScopes(found.scopes)),
    projects: projects.length === 0 ? 'all' : new Set(projects),
  };
}
