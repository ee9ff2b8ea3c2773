import type { Database } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { longest } from '../../shared/domain/bounds.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashPassword, matchesNothing, verifyPassword } from '../../shared/lib/passwords.ts';
import { inBrowser, recordAudit, type Deed } from './audit.ts';
import { beginAttempt, forgive, noteRefusal } from './sign-in-throttle.ts';
import { admitByOperator } from './identities.ts';
import { ownerOfLink, useUpLink } from './password-links.ts';
import { beginSession } from './sessions.ts';
import type { Refusal } from './sign-in.ts';
import { updateUser } from './users.ts';

const shortest = 12;

export function weaknessOf(password: string, email: string): string | undefined {
  if (password.length < shortest) return `A password has at least ${shortest} characters.`;
  if (password.length > longest.password) return `A password has at most ${longest.password} characters.`;
  if (password.toLowerCase().includes(email)) return 'A password that contains your e-mail address is easily guessed.';
  if (new Set(password).size < 5) return 'A password with so few different characters is easily guessed.';
  return undefined;
}

function passwordSet({ id, email }: Readonly<UserRow>, how: string): Deed {
  return { action: 'user.password_set', subject: { id, name: email }, details: { how, sessions: 'ended' } };
}

interface Setting {
  token: string;
  password: string;
  address: string;
}

/** False if the link is invalid. */
export async function setPasswordByLink(
  { db, ids }: { db: Database; ids: IdSource },
  { token, password, address }: Setting,
): Promise<boolean> {
  const owner = await ownerOfLink(db.read, token);
  if (!owner) return false;
  const hashed = await hashPassword(password);
  return db.transaction(async (trx) => {
    if (!(await useUpLink(trx, token))) return false;
    // The actor has the link, and need not be the user it was made for.
    await recordAudit(trx, ids, inBrowser(null, address), passwordSet(owner, 'link'));
    await admitByOperator(trx, owner.id);
    return updateUser(trx, owner.email, { password_hash: hashed }, { isByLink: true });
  });
}

interface Change {
  current: string;
  password: string;
  address: string;
}

/** Requires the old password: access to an open browser is not enough. Ends all sessions and begins a new one. */
export async function changePassword(
  { db, ids }: { db: Database; ids: IdSource },
  person: Readonly<UserRow>,
  { current, password, address }: Change,
): Promise<{ session: string } | Refusal> {
  const refusal = await checkPassword({ db, ids }, person, { password: current, address });
  if (refusal) return refusal;
  const hashed = await hashPassword(password);
  return db.transaction(async (trx) => {
    await updateUser(trx, person.email, { password_hash: hashed });
    await recordAudit(trx, ids, inBrowser(person, address), passwordSet(person, 'changed'));
    return { session: await beginSession(trx, ids, person.id) };
  });
}

/** Undefined if it is the password of the signed-in user. */
export async function checkPassword(
  { db, ids }: { db: Database; ids: IdSource },
  person: Readonly<UserRow>,
  { password, address }: { password: string; address: string },
): Promise<Refusal | undefined> {
  const attempt = { email: person.email, address };
  const seconds = await beginAttempt(db, ids, attempt);
  if (seconds > 0) return { refused: 'wait', seconds };
  if (await verifyPassword(password, person.password_hash ?? matchesNothing)) {
    await db.transaction((trx) => forgive(trx, attempt));
    return undefined;
  }
  await noteRefusal(db, ids, attempt, {
    user: person,
    actor: person,
    action: 'user.password_refused',
    reason: 'wrong',
  });
  return { refused: 'wrong' };
}
