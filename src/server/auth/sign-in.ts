import type { Transaction } from '../db/open.ts';
import { matchesNothing, verifyPassword } from '../../shared/lib/passwords.ts';
import { inBrowser, recordAudit } from './audit.ts';
import { beginFlow, type FlowServices } from './flows.ts';
import { link, vouchFor, type Vouched } from './identities.ts';
import { newChallenge } from './challenges.ts';
import { beginAttempt, forgive, noteRefusal } from './sign-in-throttle.ts';
import { beginSession, endSession, type Person } from './sessions.ts';
import { findUser, normalizeEmail } from './users.ts';

/** How this server signs users in. */
export interface SignInRules {
  /** False if a password signs in only if an operator's link set it. */
  takesPasswords: boolean;
  /** Whether the groups of a user make them an operator. */
  isOperator: (vouched: Vouched) => boolean;
}

export interface SignInServices extends FlowServices {
  rules: SignInRules;
}

export interface Credentials {
  email: string;
  password: string;
  address: string;
  /** The browser's present session, which ends when the new one begins. */
  session: string | undefined;
  returnTo: string;
  /** Links the account to this user of the issuer. */
  vouched?: Vouched;
}

export type SignedIn =
  | { session: string }
  /** A passkey or a recovery code is required too, for this flow. */
  | { asks: string }
  | Refusal;

export type Refusal =
  | { refused: 'wrong' }
  | { refused: 'suspended' }
  | { refused: 'shut_out' }
  | { refused: 'wait'; seconds: number };

/**
 * An unknown address, or an account without a password, costs the same work and gets the same response as a wrong
 * password. So callers cannot find out who has an account. Each sign-in begins a new session, so that a session planted
 * in the browser is never used.
 */
export async function signIn(services: SignInServices, entered: Credentials): Promise<SignedIn> {
  const { db, ids, rules } = services;
  const { address, session, vouched, returnTo } = entered;
  const attempt = { email: entered.email, address };
  const seconds = await beginAttempt(db, ids, attempt);
  if (seconds > 0) return { refused: 'wait', seconds };
  const email = normalizeEmail(entered.email);
  const user = email === undefined ? undefined : await findUser(db.read, email);
  const isKnown = await verifyPassword(entered.password, user?.password_hash ?? matchesNothing);
  // Where passwords do not sign in, they still prove once whose account it is.
  const counts = rules.takesPasswords || user?.password_by_link === 1 || vouched !== undefined;
  const refused = !user || !isKnown || !counts ? 'wrong' : whyRefused(user, vouched);
  if (!user || refused) {
    await noteRefusal(db, ids, attempt, { user, action: 'user.sign_in_refused', reason: refused ?? 'wrong' });
    return { refused: refused ?? 'wrong' };
  }
  if (user.asks_passkey === 1) {
    await db.transaction((trx) => forgive(trx, attempt));
    return { asks: await askForSecond(services, user, { returnTo, vouched }) };
  }
  return db.transaction(async (trx) => {
    await forgive(trx, attempt);
    return { session: await openSession(services, trx, user, { address, session, how: 'password', vouched }) };
  });
}

/** Only after a proof, so that nobody else learns it. An issuer that vouches for the user lets them in again. */
export function whyRefused(user: Person, vouched?: Vouched): 'suspended' | 'shut_out' | undefined {
  if (user.suspended === 1) return 'suspended';
  return user.shut_out !== '' && vouched === undefined ? 'shut_out' : undefined;
}

export function askForSecond(
  services: FlowServices,
  { id }: Person,
  {
    returnTo,
    vouched,
    link: linkToken,
  }: { returnTo: string; vouched?: Vouched | undefined; link?: string | undefined },
): Promise<string> {
  return beginFlow(services, {
    step: 'second',
    userId: String(id),
    challenge: newChallenge(),
    returnTo,
    ...(vouched && { vouched }),
    ...(linkToken !== undefined && { link: linkToken }),
  });
}

export interface Opening {
  address: string;
  session: string | undefined;
  how: 'password' | 'issuer' | 'passkey' | 'recovery_code';
  vouched?: Vouched | undefined;
  /** An operator's link proved whose account it is. */
  byLink?: boolean;
}

/** Everything is proven. Throws `AlreadyLinkedError` if the issuer's user was linked elsewhere meanwhile. */
export async function openSession(
  { ids, vault, rules }: SignInServices,
  trx: Transaction,
  user: Person,
  { address, session, how, vouched, byLink = false }: Opening,
): Promise<string> {
  const by = inBrowser(user, address);
  if (vouched) {
    const identity = await link(trx, ids, user, { vouched, replaces: byLink, by });
    await vouchFor({ ids, vault }, trx, identity, { vouched, isOperator: rules.isOperator(vouched), by });
  }
  if (session !== undefined) await endSession(trx, session);
  const subject = { id: user.id, name: user.email };
  await recordAudit(trx, ids, by, { action: 'user.signed_in', subject, details: how === 'password' ? {} : { how } });
  return beginSession(trx, ids, user.id, { byIssuer: vouched !== undefined });
}
