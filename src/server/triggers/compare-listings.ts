import { orNotYet, type Database } from '../db/open.ts';
import { memoized } from '../db/memo.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { BusyThreadError, createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { compareListings, isQuick, type Compared, type Listings } from './polled-refs.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/** Long listings are compared in a thread, outside of transactions. */
const makeThread = (): WorkerThread<Listings, Compared | undefined> =>
  createWorkerThread('server/triggers/polled-refs-worker.ts', {
    mostOfOne: 4,
    mostOfAll: 64,
    timeoutMs: 30_000,
  });

export const closeListingThread = (db: Database): Promise<void> => memoized(db, makeThread).close();

/** A long comparison runs outside, then the transaction reruns. `name` identifies the two listings. */
export function compareInTransaction(
  { db, trx }: WriteContext,
  { account, name }: { account: bigint; name: string },
  listings: Listings,
): Compared | undefined {
  if (isQuick(listings)) return compareListings(listings);
  return orNotYet(trx, name, () => memoized(db, makeThread).ask(account, listings).catch(refused));
}

function refused(error: unknown): never {
  throw error instanceof BusyThreadError ? new UnavailableError('too many listings are to be compared at once') : error;
}
