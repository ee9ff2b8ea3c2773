import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import { isUniqueViolation, type Database, type Queries, type Transaction } from '../db/open.ts';
import type { PasskeyRow, UserRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { mostPasskeys } from '../../shared/domain/bounds.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { recordAudit, type Doer } from './audit.ts';
import { dropCodes } from './recovery-codes.ts';

/**
 * Passkeys (WebAuthn). Each is bound to the host of this server. The authenticator has to verify its user, because a
 * passkey alone signs in. The library loads with the first use.
 */
const verifiesUser = 'required';
const timeout = 5 * 60 * 1000;
/** Ed25519, ECDSA with P-256, RSA. */
const algorithms = [-8, -7, -257];

type Owner = Pick<UserRow, 'id' | 'email'>;

export async function passkeysOf(db: Queries, userId: bigint): Promise<PasskeyRow[]> {
  return db.selectFrom('passkeys').selectAll().where('user_id', '=', userId).orderBy('id').execute();
}

/** The origin of pages, and the name that passkeys belong to. */
function partyOf(address: string): { origin: string; host: string } {
  const { origin, hostname: host } = new URL(address);
  return { origin, host };
}

interface Listed {
  id: string;
  type: 'public-key';
  transports: string[];
}

const listed = ({ credential_id: id, transports }: PasskeyRow): Listed => ({
  id,
  type: 'public-key',
  transports: transports.split(' ').filter(Boolean),
});

/** Options of a page for `navigator.credentials.create`. */
export function creationOptions(
  address: string,
  { id, email }: Owner,
  known: readonly PasskeyRow[],
  challenge: string,
) {
  return {
    challenge,
    timeout,
    rp: { id: partyOf(address).host, name: 'Headrace' },
    user: { id: Buffer.from(String(id)).toString('base64url'), name: email, displayName: email },
    pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
    excludeCredentials: known.map(listed),
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: verifiesUser },
    attestation: 'none',
  };
}

/** Options of a page for `navigator.credentials.get`. Without `allowed`, the browser offers all it has for this host. */
export function requestOptions(address: string, challenge: string, allowed: readonly PasskeyRow[] = []) {
  const { host: rpId } = partyOf(address);
  return { challenge, timeout, rpId, userVerification: verifiesUser, allowCredentials: allowed.map(listed) };
}

export interface Answered {
  /** The browser's JSON. */
  answer: string;
  challenge: string;
  /** The address of this server, as the browser knows it. */
  address: string;
}

/** Undefined if the answer is not one to this challenge, or not from a passkey of this user, if one is named. */
export async function usePasskey(
  db: Database,
  { answer, challenge, address }: Answered,
  userId?: bigint,
): Promise<PasskeyRow | undefined> {
  const response = parsed(answer) as AuthenticationResponseJSON | undefined;
  if (!response) return undefined;
  const all = db.read.selectFrom('passkeys').selectAll().where('credential_id', '=', response.id);
  const passkey = await all.executeTakeFirst();
  if (!passkey || (userId !== undefined && passkey.user_id !== userId)) return undefined;
  const { verifyAuthenticationResponse } = await import('@simplewebauthn/server');
  const { origin, host } = partyOf(address);
  const expected = { expectedChallenge: challenge, expectedOrigin: origin, expectedRPID: host };
  const credential = {
    id: passkey.credential_id,
    publicKey: new Uint8Array(Buffer.from(passkey.public_key, 'base64url')),
    counter: Number(passkey.counter),
  };
  const given = { response, credential, requireUserVerification: true, ...expected };
  const result = await verifyAuthenticationResponse(given).catch(() => undefined);
  if (!result?.verified) return undefined;
  const used = { counter: BigInt(result.authenticationInfo.newCounter), last_used_at: BigInt(Date.now()) };
  await db.transaction((trx) => trx.updateTable('passkeys').set(used).where('id', '=', passkey.id).execute());
  return passkey;
}

export type Added = 'added' | 'refused' | 'known' | 'too many';

export async function addPasskey(
  { db, ids }: { db: Database; ids: IdSource },
  user: Owner,
  { answer, challenge, address, name, by }: Answered & { name: string; by: Doer },
): Promise<Added> {
  const response = parsed(answer) as RegistrationResponseJSON | undefined;
  if (!response) return 'refused';
  const { verifyRegistrationResponse } = await import('@simplewebauthn/server');
  const { origin, host } = partyOf(address);
  const expected = { expectedChallenge: challenge, expectedOrigin: origin, expectedRPID: host };
  const rules = { requireUserVerification: true, supportedAlgorithmIDs: algorithms };
  const result = await verifyRegistrationResponse({ response, ...expected, ...rules }).catch(() => undefined);
  if (!result?.verified) return 'refused';
  const { credential } = result.registrationInfo;
  const row: PasskeyRow = {
    id: ids.next(),
    user_id: user.id,
    name,
    credential_id: credential.id,
    public_key: Buffer.from(credential.publicKey).toString('base64url'),
    counter: BigInt(credential.counter),
    transports: (credential.transports ?? []).join(' '),
    created_at: BigInt(Date.now()),
    last_used_at: null,
  };
  try {
    return await db.transaction(async (trx) => {
      await holdUser(trx, user.id);
      if ((await passkeysOf(trx, user.id)).length >= mostPasskeys) return 'too many';
      await trx.insertInto('passkeys').values(row).execute();
      await recordAudit(trx, ids, by, { action: 'passkey.added', subject: { id: row.id, name } });
      return 'added';
    });
  } catch (error) {
    if (isUniqueViolation(error)) return 'known';
    throw error;
  }
}

interface Named {
  user: Owner;
  id: bigint;
  by: Doer;
}

export async function renamePasskey(
  trx: Transaction,
  ids: IdSource,
  { user, id, by, name }: Named & { name: string },
): Promise<void> {
  const renamed = trx.updateTable('passkeys').set({ name }).where('id', '=', id).where('user_id', '=', user.id);
  if ((await renamed.executeTakeFirst()).numUpdatedRows !== 1n) throw new ApiError('not_found');
  await recordAudit(trx, ids, by, { action: 'passkey.renamed', subject: { id, name } });
}

/** False for the last one while the password needs one. */
export async function removePasskey(trx: Transaction, ids: IdSource, { user, id, by }: Named): Promise<boolean> {
  const { asks_passkey: asks } = await holdUser(trx, user.id);
  const all = await passkeysOf(trx, user.id);
  const removed = all.find((one) => one.id === id);
  if (!removed) throw new ApiError('not_found');
  if (asks === 1 && all.length === 1) return false;
  await trx.deleteFrom('passkeys').where('id', '=', id).execute();
  await recordAudit(trx, ids, by, { action: 'passkey.removed', subject: { id, name: removed.name } });
  return true;
}

/** False without a passkey. */
export async function askAfterPassword(
  trx: Transaction,
  ids: IdSource,
  { user, asks, by }: { user: Owner; asks: boolean; by: Doer },
): Promise<boolean> {
  await holdUser(trx, user.id);
  if (asks && (await passkeysOf(trx, user.id)).length === 0) return false;
  await trx
    .updateTable('users')
    .set({ asks_passkey: asks ? 1 : 0 })
    .where('id', '=', user.id)
    .execute();
  if (!asks) await dropCodes(trx, user.id);
  const subject = { id: user.id, name: user.email };
  await recordAudit(trx, ids, by, { action: 'user.second_factor_changed', subject, details: { on: asks } });
  return true;
}

/** For an operator on the machine, if a user has lost passkeys and recovery codes. */
export async function dropPasskeysOf(trx: Transaction, userId: bigint): Promise<void> {
  await trx.deleteFrom('passkeys').where('user_id', '=', userId).execute();
  await trx.updateTable('users').set({ asks_passkey: 0 }).where('id', '=', userId).execute();
  await dropCodes(trx, userId);
}

/** Two transactions that change a user's passkeys take turns. */
async function holdUser(trx: Transaction, id: bigint): Promise<Pick<UserRow, 'asks_passkey'>> {
  return trx
    .updateTable('users')
    .set((of) => ({ asks_passkey: of.ref('asks_passkey') }))
    .where('id', '=', id)
    .returning('asks_passkey')
    .executeTakeFirstOrThrow();
}

/** Undefined if the browser sent something else. The library checks the rest. */
function parsed(answer: string): { id: string } | undefined {
  try {
    const value: unknown = JSON.parse(answer);
    const isCredential = typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'string';
    return isCredential ? (value as { id: string }) : undefined;
  } catch {
    return undefined;
  }
}
