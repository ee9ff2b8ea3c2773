import { isUniqueViolation, type Database, type Queries, type Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type IdentityRow, type UserRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { recordAudit, type Doer } from './audit.ts';
import { dropLinkOf } from './password-links.ts';
import { dropCredentialsOf } from './retire.ts';
import { endSessionsOf } from './sessions.ts';

/** What an issuer reports about a user. */
export interface Vouched {
  issuer: string;
  /** Identifies the user at the issuer, whatever their address becomes. */
  subject: string;
  /** Only an address that the issuer has verified. */
  email: string | undefined;
  hasAddress: boolean;
  groups: string[];
  refreshToken: string | undefined;
}

/**
 * - `group`, `domain`: the rules of the settings no longer admit the user.
 * - `gone`: the issuer refuses to renew the sign-in.
 * - `silent`: the issuer has given no answer for an hour.
 */
export type ShutOut = 'group' | 'domain' | 'gone' | 'silent';

export const lookEveryMs = 15 * 60 * 1000;
export const silenceMs = 60 * 60 * 1000;
const silentPauseMs = 60 * 1000;
/** A server that stops in the middle of a call leaves the rest to others. */
const claimMs = 2 * 60 * 1000;

const place = { table: 'identities', column: 'refresh_token' } as const;

export const identitiesTopic = 'identities';

interface Writing {
  ids: IdSource;
  vault: Vault;
}

export async function identityAt(
  db: Queries,
  { issuer, subject }: Pick<Vouched, 'issuer' | 'subject'>,
): Promise<IdentityRow | undefined> {
  const all = db.selectFrom('identities').selectAll().where('issuer', '=', issuer);
  return all.where('subject', '=', subject).executeTakeFirst();
}

export async function identityOf(db: Queries, userId: bigint): Promise<IdentityRow | undefined> {
  return db.selectFrom('identities').selectAll().where('user_id', '=', userId).executeTakeFirst();
}

/** Another account is linked to this user of the issuer, or has just been. */
export class AlreadyLinkedError extends Error {
  override name = 'AlreadyLinkedError';
}

/**
 * The caller has the proof that the account is the user's. A user is linked to an issuer once. Only an operator's link
 * (`replaces`) links the account to another user of it.
 */
export async function link(
  trx: Transaction,
  ids: IdSource,
  user: Pick<UserRow, 'id' | 'email' | 'by_invitation'>,
  { vouched: { issuer, subject }, replaces, by }: { vouched: Vouched; replaces: boolean; by: Doer },
): Promise<IdentityRow> {
  const known = await identityAt(trx, { issuer, subject });
  if (known?.user_id === user.id) return known;
  if (known) throw new AlreadyLinkedError();
  if (!replaces && (await identityOf(trx, user.id))?.issuer === issuer) throw new AlreadyLinkedError();
  await trx.deleteFrom('identities').where('user_id', '=', user.id).execute();
  // Whoever had the invitation may have made these.
  if (user.by_invitation === 1) await dropCredentialsOf(trx, user.id);
  const unknown = { refresh_token: null, look_at: null, silent_since: null };
  const row = { id: ids.next(), user_id: user.id, issuer, subject, operator: 0, ...unknown };
  try {
    await trx.insertInto('identities').values(row).execute();
  } catch (error) {
    if (isUniqueViolation(error)) throw new AlreadyLinkedError();
    throw error;
  }
  const named = { id: user.id, name: user.email };
  await recordAudit(trx, ids, by, { action: 'user.linked', subject: named, details: { issuer } });
  return row;
}

/** The issuer vouches for a linked user, and the rules admit them. */
export async function vouchFor(
  { ids, vault }: Writing,
  trx: Transaction,
  identity: IdentityRow,
  { vouched, isOperator, by }: { vouched: Vouched; isOperator: boolean; by: Doer },
): Promise<void> {
  const { refreshToken } = vouched;
  const sealed =
    refreshToken === undefined ? null : await sealIn(trx, vault, refreshToken, sealedLocation(place, identity.id));
  await trx
    .updateTable('identities')
    .set({
      refresh_token: sealed,
      look_at: sealed === null ? null : BigInt(Date.now() + lookEveryMs),
      silent_since: null,
    })
    .where('id', '=', identity.id)
    .execute();
  await trx.updateTable('users').set({ shut_out: '' }).where('id', '=', identity.user_id).execute();
  await setOperator(trx, ids, identity, isOperator, by);
}

/** Operators made by hand stay operators. */
async function setOperator(
  trx: Transaction,
  ids: IdSource,
  identity: Pick<IdentityRow, 'id' | 'user_id' | 'operator'>,
  isOperator: boolean,
  by: Doer,
): Promise<void> {
  const isByGroup = identity.operator === 1;
  if (isByGroup === isOperator) return;
  const user = await trx.selectFrom('users').selectAll().where('id', '=', identity.user_id).executeTakeFirst();
  if (!user || (isOperator && user.operator === 1)) return;
  const operator = isOperator ? 1 : 0;
  await trx.updateTable('identities').set({ operator }).where('id', '=', identity.id).execute();
  await trx.updateTable('users').set({ operator }).where('id', '=', user.id).execute();
  const subject = { id: user.id, name: user.email };
  const details = { operator: isOperator, how: 'group' };
  await recordAudit(trx, ids, by, { action: 'user.operator_changed', subject, details });
}

export const byIssuer: Doer = { actor: null, via: 'issuer', application: null, address: null };

/** Ends sessions and an open link. Keys, tokens and passkeys are refused until the issuer vouches again. */
export async function shutOut(
  { ids }: Pick<Writing, 'ids'>,
  trx: Transaction,
  identity: IdentityRow,
  reason: ShutOut,
): Promise<void> {
  const isGone = reason === 'gone';
  if (isGone) {
    const forgotten = { refresh_token: null, look_at: null, silent_since: null };
    await trx.updateTable('identities').set(forgotten).where('id', '=', identity.id).execute();
  }
  const changed = await trx
    .updateTable('users')
    .set({ shut_out: reason })
    .where('id', '=', identity.user_id)
    .where('shut_out', '!=', reason)
    .returning(['id', 'email'])
    .executeTakeFirst();
  if (!changed) return;
  if (reason !== 'silent') {
    await endSessionsOf(trx, changed.id);
    await dropLinkOf(trx, changed.id);
    await setOperator(trx, ids, identity, false, byIssuer);
  }
  const subject = { id: changed.id, name: changed.email };
  await recordAudit(trx, ids, byIssuer, { action: 'user.shut_out', subject, details: { reason } });
}

/** The rules refuse a user whose refresh token is still good: they are let in again when the rules admit them. */
export async function keepLooking(
  { vault }: Pick<Writing, 'vault'>,
  trx: Transaction,
  identity: IdentityRow,
  refreshToken: string | undefined,
): Promise<void> {
  if (refreshToken === undefined) return;
  const sealed = await sealIn(trx, vault, refreshToken, sealedLocation(place, identity.id));
  const next = { refresh_token: sealed, look_at: BigInt(Date.now() + lookEveryMs), silent_since: null };
  await trx.updateTable('identities').set(next).where('id', '=', identity.id).execute();
}

export async function noteSilence(
  services: Pick<Writing, 'ids'>,
  trx: Transaction,
  identity: IdentityRow,
): Promise<void> {
  const now = Date.now();
  const since = identity.silent_since ?? BigInt(now);
  const next = { silent_since: since, look_at: BigInt(now + silentPauseMs) };
  await trx.updateTable('identities').set(next).where('id', '=', identity.id).execute();
  if (now - Number(since) >= silenceMs) await shutOut(services, trx, identity, 'silent');
}

/** Users whom an issuer's silence has shut out get in again when the settings no longer name that issuer. */
export async function forgetSilence(db: Database, issuer: string | undefined): Promise<void> {
  await db.transaction((trx) =>
    trx
      .updateTable('users')
      .set({ shut_out: '' })
      .where('shut_out', '=', 'silent')
      .where('id', 'in', (of) =>
        of
          .selectFrom('identities')
          .select('user_id')
          .where('issuer', '!=', issuer ?? ''),
      )
      .execute(),
  );
}

/** An operator has decided that the user gets in, until the issuer is asked at their next sign-in there. */
export async function admitByOperator(trx: Transaction, userId: bigint): Promise<void> {
  const forgotten = { refresh_token: null, look_at: null, silent_since: null };
  await trx.updateTable('identities').set(forgotten).where('user_id', '=', userId).execute();
  await trx.updateTable('users').set({ shut_out: '' }).where('id', '=', userId).execute();
}

/** For this server alone, for a while. */
export async function claimDue(trx: Transaction, issuer: string, room: number): Promise<IdentityRow[]> {
  const now = BigInt(Date.now());
  const due = await trx
    .selectFrom('identities')
    .selectAll()
    .where('issuer', '=', issuer)
    .where('look_at', '<=', now)
    .orderBy('look_at')
    .limit(room)
    .execute();
  const claimed: IdentityRow[] = [];
  for (const identity of due.toSorted((one, other) => (one.id < other.id ? -1 : 1))) {
    const { numUpdatedRows } = await trx
      .updateTable('identities')
      .set({ look_at: now + BigInt(claimMs) })
      .where('id', '=', identity.id)
      .where('look_at', '=', identity.look_at)
      .executeTakeFirst();
    if (numUpdatedRows === 1n) claimed.push(identity);
  }
  return claimed;
}

/** Whether anything that the user has could be used. */
export async function isAlive(db: Queries, userId: bigint): Promise<boolean> {
  const user = await db.selectFrom('users').select('api_key_hash').where('id', '=', userId).executeTakeFirst();
  if (typeof user?.api_key_hash === 'string') return true;
  const sessions = db.selectFrom('sessions').select('id').where('user_id', '=', userId);
  if (await sessions.where('expires_at', '>', BigInt(Date.now())).limit(1).executeTakeFirst()) return true;
  const tokens = db.selectFrom('user_tokens').select('id').where('owner_id', '=', userId);
  if (await tokens.where('expires_at', '>', BigInt(Date.now())).limit(1).executeTakeFirst()) return true;
  for (const table of ['access_tokens', 'passkeys'] as const) {
    if (await db.selectFrom(table).select('id').where('user_id', '=', userId).limit(1).executeTakeFirst()) return true;
  }
  return false;
}

export async function lookLater(trx: Transaction, identity: IdentityRow): Promise<void> {
  const next = { look_at: BigInt(Date.now() + lookEveryMs) };
  await trx.updateTable('identities').set(next).where('id', '=', identity.id).execute();
}

export function refreshTokenOf(vault: Vault, { id, refresh_token: sealed }: IdentityRow): string | undefined {
  return sealed === null ? undefined : vault.open(sealed, sealedLocation(place, id));
}
