import { ApiError } from '../../shared/errors.ts';
import { isUniqueViolation, type Queries, type Transaction } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { longest } from '../../shared/domain/bounds.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashPassword, hashSecret, randomPassword, randomSecret } from '../../shared/lib/passwords.ts';
import { dropLinkOf } from './password-links.ts';
import { endSessionsOf } from './sessions.ts';

/** A collaborator only works on other accounts' projects. */
export type UserKind = 'user' | 'collaborator';
export const billingStates = ['ok', 'trial_ended', 'overdue'] as const;

export interface Credentials {
  email: string;
  password: string;
  api_key: string;
}

/** The rest is up to the mail server of the domain. */
const emailForm = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

/** Lower case: two spellings never mean two accounts. */
export function normalizeEmail(text: string): string | undefined {
  const email = text.trim().toLowerCase();
  return email.length <= longest.email && emailForm.test(email) ? email : undefined;
}

/** Only people: organisations, and what is left of deleted accounts, are rows of other kinds. */
export function people(db: Queries) {
  return db.selectFrom('users').where('users.kind', 'in', ['user', 'collaborator']);
}

export async function findUser(db: Queries, email: string): Promise<Readonly<UserRow> | undefined> {
  return people(db).selectAll().where('email', '=', email).executeTakeFirst();
}

export async function findUserById(db: Queries, id: bigint): Promise<Readonly<UserRow> | undefined> {
  return people(db).selectAll().where('id', '=', id).executeTakeFirst();
}

/** The slow hash is computed before any transaction begins. */
export async function makeCredentials(email: string): Promise<{ credentials: Credentials; stored: StoredSecrets }> {
  const password = randomPassword();
  const apiKey = randomSecret('hrk');
  return {
    credentials: { email, password, api_key: apiKey },
    stored: { password_hash: await hashPassword(password), api_key_hash: hashSecret(apiKey) },
  };
}

interface StoredSecrets {
  password_hash: string | null;
  api_key_hash: string | null;
}

export interface NewUser {
  email: string;
  kind: UserKind;
  secrets: StoredSecrets;
  /** Otherwise the first user of an installation becomes an operator. */
  isNeverOperator?: boolean;
}

export async function insertUser(
  trx: Transaction,
  ids: IdSource,
  { email, kind, secrets, isNeverOperator = false }: NewUser,
): Promise<bigint> {
  const id = ids.next();
  const operator = kind === 'user' && !isNeverOperator && (await isFirstUser(trx)) ? 1 : 0;
  const plain = { by_invitation: 0, news: 1, password_by_link: 0, asks_passkey: 0, shut_out: '' };
  const row = { id, email, kind, ...secrets, suspended: 0, billing: 'ok', created_at: BigInt(Date.now()) };
  try {
    await trx
      .insertInto('users')
      .values({ ...row, ...plain, operator })
      .execute();
  } catch (error) {
    if (isUniqueViolation(error)) throw new ApiError('already_exists', 'email');
    throw error;
  }
  return id;
}

async function isFirstUser(trx: Transaction): Promise<boolean> {
  const users = trx.selectFrom('users').select('id').where('kind', '=', 'user');
  return (await users.limit(1).executeTakeFirst()) === undefined;
}

/** The user's invitations stay. Undefined if there is no such user. */
export async function promoteInvited(
  trx: Transaction,
  email: string,
  secrets: StoredSecrets,
): Promise<bigint | undefined> {
  const invited = await findUser(trx, email);
  if (invited?.kind !== 'collaborator') return undefined;
  const operator = (await isFirstUser(trx)) ? 1 : invited.operator;
  await updateUser(trx, email, { kind: 'user', operator, ...secrets });
  return invited.id;
}

export async function updateUser(
  trx: Transaction,
  email: string,
  change: Partial<
    Pick<
      UserRow,
      'suspended' | 'billing' | 'kind' | 'operator' | 'news' | 'password_hash' | 'api_key_hash' | 'by_invitation'
    >
  >,
  { isByLink = false }: { isByLink?: boolean } = {},
): Promise<boolean> {
  const passwordOrigin = 'password_hash' in change && { password_by_link: isByLink ? 1 : 0 };
  const changed = await trx
    .updateTable('users')
    .set({ ...change, ...passwordOrigin })
    .where('email', '=', email)
    .returning('id')
    .execute();
  // Sessions opened with the old password end.
  for (const { id } of 'password_hash' in change ? changed : []) {
    await endSessionsOf(trx, id);
    await dropLinkOf(trx, id);
  }
  // An operator made by hand stays one, whatever their groups become.
  for (const { id } of 'operator' in change ? changed : [])
    await trx.updateTable('identities').set({ operator: 0 }).where('user_id', '=', id).execute();
  return changed.length === 1;
}

/** The returned value is the only copy of the key. The old key is invalid. */
export async function renewApiKey(trx: Transaction, email: string): Promise<string> {
  const key = randomSecret('hrk');
  await updateUser(trx, email, { api_key_hash: hashSecret(key) });
  return key;
}

/** Suspended, or refused at the issuer: nothing counts that such a user began. */
export function isLockedOut({ suspended, shut_out: reason }: Readonly<UserRow>): boolean {
  return suspended === 1 || reason !== '';
}

/** False for people who were only invited. */
export function hasAccount({ kind, password_hash: password, api_key_hash: key }: Readonly<UserRow>): boolean {
  return kind === 'user' || password !== null || key !== null;
}

/** A member of an organisation has an account of their own. */
export async function promote(trx: Transaction, { email, kind, operator }: Readonly<UserRow>): Promise<void> {
  if (kind === 'collaborator')
    await updateUser(trx, email, { kind: 'user', operator: (await isFirstUser(trx)) ? 1 : operator });
}

/** Deletes only users who were invited, never signed in, and are no longer on a project. */
export async function forgetInvited(trx: Transaction, ids: readonly bigint[]): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .deleteFrom('users')
    .where('id', 'in', ids)
    .where('kind', '=', 'collaborator')
    .where('password_hash', 'is', null)
    .where('api_key_hash', 'is', null)
    .where('id', 'not in', (of) => of.selectFrom('collaborators').select('user_id').where('user_id', 'in', ids))
    .where('id', 'not in', (of) => of.selectFrom('organisation_members').select('user_id').where('user_id', 'in', ids))
    .where('id', 'not in', (of) => of.selectFrom('password_links').select('user_id').where('user_id', 'in', ids))
    .where('id', 'not in', (of) => of.selectFrom('identities').select('user_id').where('user_id', 'in', ids))
    .execute();
}
