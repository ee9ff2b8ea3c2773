import { inBrowser, recordAudit } from '../auth/audit.ts';
import { beginFlow, type Flow } from '../auth/flows.ts';
import { AlreadyLinkedError, identityAt, identityOf, type Vouched } from '../auth/identities.ts';
import { ownerOfLink, useUpLink } from '../auth/password-links.ts';
import type { Person } from '../auth/sessions.ts';
import { askForSecond, openSession, whyRefused, type SignInServices } from '../auth/sign-in.ts';
import { findUser, findUserById, insertUser, normalizeEmail } from '../auth/users.ts';
import { ApiError } from '../../shared/errors.ts';
import type { IssuerSettings } from './issuer.ts';
import { whyNotAdmitted } from './judge.ts';

export type NotAdmitted = 'group' | 'domain' | 'unverified' | 'suspended' | 'unknown' | 'taken' | 'link over' | 'other';

export type Arrived =
  | { session: string; returnTo: string }
  /** A passkey or a recovery code is required too. */
  | { asks: string }
  /** An account with this address exists. Its user has to prove that it is theirs. */
  | { linking: string; email: string }
  | { notAdmitted: NotAdmitted };

interface Browser {
  address: string;
  session: string | undefined;
}

type AtIssuer = Extract<Flow, { step: 'issuer' }>;

/** The issuer has vouched for somebody. Decides whose account that is, and whether they get in. */
export async function arrive(
  services: SignInServices,
  settings: IssuerSettings,
  { flow, vouched, browser }: { flow: AtIssuer; vouched: Vouched; browser: Browser },
): Promise<Arrived> {
  const why = whyNotAdmitted(settings, vouched);
  if (why !== undefined) return { notAdmitted: why };
  try {
    return await admit(services, settings, { flow, vouched, browser });
  } catch (error) {
    if (error instanceof AlreadyLinkedError) return { notAdmitted: 'taken' };
    throw error;
  }
}

async function admit(
  services: SignInServices,
  settings: IssuerSettings,
  { flow, vouched, browser }: { flow: AtIssuer; vouched: Vouched; browser: Browser },
): Promise<Arrived> {
  const { db } = services;
  const { returnTo, confirms, link } = flow;
  const open = async (user: Person): Promise<Arrived> => {
    if (whyRefused(user, vouched)) return { notAdmitted: 'suspended' };
    const opening = { ...browser, how: 'issuer', vouched } as const;
    return { session: await db.transaction((trx) => openSession(services, trx, user, opening)), returnTo };
  };
  const known = await identityAt(db.read, vouched);
  const user = known && (await findUserById(db.read, known.user_id));
  if (confirms !== undefined && confirms !== String(user?.id)) return { notAdmitted: 'other' };
  if (user) return open(user);
  if (link !== undefined) return linkByLink(services, link, { returnTo, vouched, browser });
  const email = normalizeEmail(vouched.email ?? '');
  if (email === undefined) return { notAdmitted: 'unverified' };
  const account = await findUser(db.read, email);
  if (!account)
    return settings.hasSignUp ? signUp(services, email, { returnTo, vouched, browser }) : { notAdmitted: 'unknown' };
  if (account.suspended === 1) return { notAdmitted: 'suspended' };
  if ((await identityOf(db.read, account.id))?.issuer === vouched.issuer) return { notAdmitted: 'taken' };
  if (settings.trustsEmail) return open(account);
  const linking = await beginFlow(services, { step: 'linking', vouched, userId: String(account.id), returnTo });
  return { linking, email };
}

interface Arriving {
  returnTo: string;
  vouched: Vouched;
  browser: Browser;
}

async function signUp(
  services: SignInServices,
  email: string,
  { returnTo, vouched, browser }: Arriving,
): Promise<Arrived> {
  const { db, ids } = services;
  try {
    const session = await db.transaction(async (trx) => {
      const secrets = { password_hash: null, api_key_hash: null };
      const id = await insertUser(trx, ids, { email, kind: 'user', secrets, isNeverOperator: true });
      const made = { id, email };
      const details = { kind: 'user', how: 'issuer' };
      await recordAudit(trx, ids, inBrowser(made, browser.address), {
        action: 'user.created',
        subject: { id, name: email },
        details,
      });
      const user = await findUserById(trx, id);
      if (!user) throw new Error('a user that was just made is missing');
      return openSession(services, trx, user, { ...browser, how: 'issuer', vouched });
    });
    return { session, returnTo };
  } catch (error) {
    // An account with this address was made meanwhile.
    if (error instanceof ApiError) return { notAdmitted: 'taken' };
    throw error;
  }
}

/** The link proves whose account it is, as it could set its password. */
async function linkByLink(
  services: SignInServices,
  link: string,
  { returnTo, vouched, browser }: Arriving,
): Promise<Arrived> {
  const { db } = services;
  const owner = await ownerOfLink(db.read, link);
  if (!owner) return { notAdmitted: 'link over' };
  if (owner.asks_passkey === 1) return { asks: await askForSecond(services, owner, { returnTo, vouched, link }) };
  const session = await db.transaction(async (trx) => {
    if (!(await useUpLink(trx, link))) return undefined;
    return openSession(services, trx, owner, { ...browser, how: 'issuer', vouched, byLink: true });
  });
  return session === undefined ? { notAdmitted: 'link over' } : { session, returnTo };
}
