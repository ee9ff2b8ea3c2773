import { randomBytes } from 'node:crypto';
import type { Database } from '../db/open.ts';
import type { ClaimedErrand } from './errands.ts';

/**
 * A server that runs errands takes those that it makes itself: they are claimed from birth, in the transaction that
 * makes them, and its commit says so. That spares the second transaction, and with it the second wait for the disk,
 * between something that happens and whoever is told. One whose server dies at that moment is freed like any other.
 */
export interface Taker {
  holder: string;
  /** For how long it is claimed. */
  seconds: number;
  /** Whether another errand of the account can be begun at once. */
  takes(accountId: bigint): boolean;
}

type KnownTaker = Taker & { token: string };

const takers = new WeakMap<Database, KnownTaker>();

export function takerOf(db: Database): KnownTaker | undefined {
  return takers.get(db);
}

/** What is announced of an errand that was claimed from birth. */
export function taken({ token }: KnownTaker, errand: Omit<ClaimedErrand, 'tries'>): string {
  return ['errand', token, errand.id, errand.subject_id, errand.account_id, errand.claim].join(':');
}

/** From now on errands made through this database are the taker's, which hears of each when it is in the store. */
export function takeErrands(db: Database, taker: Taker, begin: (errand: ClaimedErrand) => void): () => void {
  const known = { ...taker, token: randomBytes(9).toString('base64url') };
  const mine = `errand:${known.token}:`;
  takers.set(db, known);
  const stopListening = db.listen((topic) => {
    if (!topic.startsWith(mine)) return;
    const [id = '', subject = '', account = '', claim = ''] = topic.slice(mine.length).split(':');
    begin({ id: BigInt(id), subject_id: BigInt(subject), account_id: BigInt(account), claim, tries: 0 });
  });
  return () => {
    takers.delete(db);
    stopListening();
  };
}
