import type { Database, Transaction } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashPassword } from '../../shared/lib/passwords.ts';
import { inBrowser, recordAudit } from './audit.ts';
import { findInvitation, takeInvitation, type Invitation } from './organisations.ts';
import { beginSession, type Person } from './sessions.ts';
import { findUserById, promote, updateUser } from './users.ts';

interface Store {
  db: Database;
  ids: IdSource;
}

/** The invited user has signed in, so the invitation is theirs. False if it is no longer valid. */
export async function joinAs(
  { db, ids }: Store,
  person: Person,
  { token, address }: { token: string; address: string },
): Promise<boolean> {
  return db.transaction(async (trx) => {
    const invitation = await findInvitation(trx, token);
    if (invitation?.user_id !== person.id) return false;
    return take(trx, ids, invitation, address);
  });
}

/** Sets the first password. Undefined if the invitation is no longer valid, or the account has something else to lose. */
export async function joinWithPassword(
  { db, ids }: Store,
  { token, password, address }: { token: string; password: string; address: string },
): Promise<string | undefined> {
  const hashed = await hashPassword(password);
  return db.transaction(async (trx) => {
    const invitation = await findInvitation(trx, token);
    if (!invitation || invitation.has_password || invitation.has_access) return undefined;
    if (!(await take(trx, ids, invitation, address))) return undefined;
    await updateUser(trx, invitation.email, { password_hash: hashed, by_invitation: 1 });
    return beginSession(trx, ids, invitation.user_id);
  });
}

async function take(trx: Transaction, ids: IdSource, invitation: Invitation, address: string): Promise<boolean> {
  const { user_id: userId, email, organisation, role } = invitation;
  const user = await findUserById(trx, userId);
  if (!user || !(await takeInvitation(trx, invitation.id))) return false;
  await promote(trx, user);
  const subject = { id: invitation.id, name: email };
  await recordAudit(trx, ids, inBrowser({ id: userId, email }, address), {
    action: 'member.joined',
    subject,
    details: { organisation, role },
  });
  return true;
}
