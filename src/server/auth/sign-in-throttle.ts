import { hash } from 'node:crypto';
import type { Database, Transaction } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { networkOf } from '../../shared/lib/networks.ts';
import { inBrowser, recordAudit, type Action } from './audit.ts';
import { backOff } from '../../shared/lib/back-off.ts';

/**
 * Slows down password guessing, for one account from any address and from one address for any account. Some failures
 * are free; each further one doubles the wait, up to a limit. An account's wait stays short: otherwise an attacker
 * could lock its owner out. Failures expire one by one, because many users may share an address and mistype.
 *
 * An attempt counts as failed before the password is checked, so that concurrent attempts do not all pass. Success is
 * subtracted again. Accounts are counted by a hash of the typed name, whether they exist or not.
 */
const limits = {
  account: { free: 5, longestWait: 30_000, forgiveness: 10 * 60_000 },
  address: { free: 20, longestWait: 15 * 60_000, forgiveness: 60_000 },
};

type Kind = keyof typeof limits;
/** After this time the remaining failures do not matter. */
const memory = 24 * 60 * 60 * 1000;

export interface SignInAttempt {
  email: string;
  address: string;
}

function subjectsOf({ email, address }: SignInAttempt): [Kind, string][] {
  return [
    ['account', `account:${hash('sha256', email.trim().toLowerCase(), 'base64url')}`],
    ['address', `address:${networkOf(address)}`],
  ];
}

/** Counts an attempt. Returns the seconds to wait, 0 if it is allowed now. */
export async function beginAttempt(db: Database, ids: IdSource, attempt: SignInAttempt): Promise<number> {
  const refused = new Refused();
  try {
    await db.transaction(async (trx) => {
      for (const [kind, subject] of subjectsOf(attempt)) {
        const wait = await count(trx, ids, kind, subject);
        if (wait > 0) throw Object.assign(refused, { wait }); // rolls the count back
      }
    });
    return 0;
  } catch (error) {
    if (error === refused) return Math.ceil(refused.wait / 1000);
    throw error;
  }
}

class Refused extends Error {
  wait = 0;
}

async function count(trx: Transaction, ids: IdSource, kind: Kind, subject: string): Promise<number> {
  const first = { id: ids.next(), subject, failures: 1, last_at: BigInt(Date.now()), refused_until: 0n, noted_at: 0n };
  const counted = await trx
    .insertInto('sign_in_failures')
    .values(first)
    .onConflict((conflict) =>
      conflict.column('subject').doUpdateSet((of) => ({ failures: of('sign_in_failures.failures', '+', 1) })),
    )
    .returning(['failures', 'last_at', 'refused_until'])
    .executeTakeFirstOrThrow();
  // Read after the insert, which may have waited for a concurrent attempt: a time read earlier could precede that
  // attempt.
  const now = BigInt(Date.now());
  const left = Number(counted.refused_until - now);
  // A wait above the limit means that the clock was set back since.
  if (left > 0 && left <= limits[kind].longestWait) return left;
  const sinceLast = Math.max(0, Number(now - counted.last_at));
  const failures = Math.max(1, counted.failures - Math.floor(sinceLast / limits[kind].forgiveness));
  const wait = backOff(failures - limits[kind].free, 1000, limits[kind].longestWait);
  const refusedUntil = wait === 0 ? 0n : now + BigInt(wait);
  await trx
    .updateTable('sign_in_failures')
    .set({ failures, last_at: now, refused_until: refusedUntil })
    .where('subject', '=', subject)
    .execute();
  return 0;
}

/** The password was right: the account's failures are deleted, and the address gets this attempt back. */
export async function forgive(trx: Transaction, attempt: SignInAttempt): Promise<void> {
  for (const [kind, subject] of subjectsOf(attempt)) {
    if (kind === 'account') await trx.deleteFrom('sign_in_failures').where('subject', '=', subject).execute();
    else {
      await trx
        .updateTable('sign_in_failures')
        .set((of) => ({ failures: of('failures', '-', 1), refused_until: 0n }))
        .where('subject', '=', subject)
        .execute();
    }
  }
}

const hour = 60 * 60 * 1000;

interface Refusal {
  user: Person | undefined;
  actor?: Person | null;
  action: Action;
  reason: string;
}

type Person = { id: bigint; email: string };

/**
 * Audited at most once an hour for an account and an address: otherwise guessing could fill the disk. A typed name
 * without an account is not recorded: it may be a password in the wrong field.
 */
export async function noteRefusal(
  db: Database,
  ids: IdSource,
  attempt: SignInAttempt,
  { user, actor = null, action, reason }: Refusal,
): Promise<void> {
  await db.transaction(async (trx) => {
    const news = new Set<Kind>();
    for (const [kind, subject] of subjectsOf(attempt)) if (await isNews(trx, subject)) news.add(kind);
    // The same work whether the account exists or not.
    if (!news.has('address') && !(news.has('account') && user)) return;
    const subject = { id: user?.id ?? null, name: user?.email ?? '' };
    await recordAudit(trx, ids, inBrowser(actor, attempt.address), { action, subject, details: { reason } });
  });
}

/**
 * True if nothing was recorded within an hour of now. A record may be later than now: from a transaction that this one
 * waited for, or because the clock was set back since.
 */
async function isNews(trx: Transaction, subject: string): Promise<boolean> {
  const now = BigInt(Date.now());
  const { numUpdatedRows } = await trx
    .updateTable('sign_in_failures')
    .set({ noted_at: now })
    .where('subject', '=', subject)
    .where((where) =>
      where.or([where('noted_at', '<', now - BigInt(hour)), where('noted_at', '>', now + BigInt(hour))]),
    )
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function forgetOldFailures(db: Database): Promise<void> {
  const limit = BigInt(Date.now() - memory);
  await db.transaction((trx) => trx.deleteFrom('sign_in_failures').where('last_at', '<', limit).execute());
}
