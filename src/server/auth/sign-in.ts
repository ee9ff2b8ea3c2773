import type { Database } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { matchesNothing, verifyPassword } from '../../shared/lib/passwords.ts';
import { inBrowser, recordAudit } from './audit.ts';
import { beginAttempt, forgive, noteRefusal } from './sign-in-throttle.ts';
import { beginSession, endSession } from './sessions.ts';
import { findUser, normalizeEmail } from './users.ts';

export interface Credentials {
  email: string;
  password: string;
  address: string;
  /** The browser's present session, which ends when the new one begins. */
  session: string | undefined;
}

export type SignedIn =
  | { session: string }
  | { refused: 'wrong' }
  | { refused: 'suspended' }
  | { refused: 'wait'; seconds: number };

/**
 * An unknown address, or an account without a password, costs the same work and gets the same response as a wrong
 * password. So callers cannot find out who has an account. Each sign-in begins a new session, so that a session planted
 * in the browser is never used.
 */
export async function signIn({ db, ids }: { db: Database; ids: IdSource }, entered: Credentials): Promise<SignedIn> {
  const { address, session } = entered;
  const attempt = { email: entered.email, address };
  const seconds = await beginAttempt(db, ids, attempt);
  if (seconds > 0) return { refused: 'wait', seconds };
  const email = normalizeEmail(entered.email);
  const user = email === undefined ? undefined : await findUser(db.read, email);
  const isRight = await verifyPassword(entered.password, user?.password_hash ?? matchesNothing);
  if (!user || !isRight || user.suspended === 1) {
    const refused = user && isRight ? 'suspended' : 'wrong';
    await noteRefusal(db, ids, attempt, { user, action: 'user.sign_in_refused', reason: refused });
    return { refused };
  }
  return db.transaction(async (trx) => {
    await forgive(trx, attempt);
    if (session !== undefined) await endSession(trx, session);
    const subject = { id: user.id, name: user.email };
    await recordAudit(trx, ids, inBrowser(user, address), { action: 'user.signed_in', subject });
    return { session: await beginSession(trx, ids, user.id) };
  });
}
