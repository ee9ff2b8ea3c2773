import { isDatabaseFull } from '../db/open.ts';
import { startWorkLoop } from '../db/work-loop.ts';
import { watchForSetBack } from '../../shared/lib/clock-set-back.ts';
import { headOfLine, type Outgoing } from '../lifecycle/webhook-deliveries.ts';
import * as deliveryJobs from '../queue/delivery-jobs.ts';
import type { ClaimedDeliveryJob } from '../queue/delivery-jobs.ts';
import { claimSecondsOf, sendLine, type LineParts } from './line.ts';
import { longestOf } from './retry-policy.ts';

/**
 * Each notification with waiting deliveries has one job in the queue. The server that claims it sends them (line.ts).
 * After a failure the job is postponed with its whole line, at no cost to others. If a server dies, its claims expire
 * and another sends: at least once, with the same identifier.
 *
 * No account gets more than its share of the slots, so slow receivers block only their own account.
 */
export interface SenderParts extends LineParts {
  /** The holder of the claims. A server that restarts under the same name takes back its claims. */
  name: string;
  trouble: (error: unknown) => void;
}

export interface Sender {
  close(): Promise<void>;
}

const mostAtOnce = 512;
const mostOfAccount = 128;
const mostPerClaim = 32;
/** Announcements can be lost. Only the database is certain. */
const checkEveryMs = 1000;

interface Claimed {
  job: ClaimedDeliveryJob;
  first: Outgoing | undefined;
}

export async function startSender(parts: SenderParts): Promise<Sender> {
  const { db, name, retryPolicy, trouble: onError } = parts;
  const closing = new AbortController();
  const slots = new Slots();
  await deliveryJobs.freeDeliveryJobsOf(db, name).catch((error: unknown) => {
    if (!isDatabaseFull(error)) throw error; // on a full disk they are released when their claims expire
  });

  const hasBeenSetBack = watchForSetBack();
  const loop = startWorkLoop(
    db,
    deliveryJobs.deliveryJobsTopic,
    async (isAnnounced) => {
      if (hasBeenSetBack()) await deliveryJobs.makeStrandedDeliveryJobsDue(db, longestOf(retryPolicy));
      const room = mostAtOnce - slots.taken;
      if (room <= 0) return checkEveryMs; // the first free slot triggers the next query
      // An announced job is claimed without a query before.
      if (!isAnnounced) {
        const dueAt = await deliveryJobs.nextDeliveryJobAt(db.read);
        if (dueAt === undefined) return checkEveryMs;
        if (dueAt > Date.now()) return dueAt - Date.now();
      }
      const claimed = await claim(parts, Math.min(room, mostPerClaim), slots);
      for (const one of claimed) begin(one);
      // More may be due, and only now the next time is known.
      return claimed.length > 0 || isAnnounced ? 0 : checkEveryMs;
    },
    { everyMs: checkEveryMs, onError },
  );
  const begin = (one: Claimed): void => {
    // When a call fails for an internal reason, the claim expires and another server tries again.
    const serve = () => sendLine(parts, one, closing.signal).catch(onError);
    void slots.take(one.job.account_id, serve).then(() => loop.wake());
  };

  return {
    async close() {
      closing.abort();
      await loop.close();
      await slots.allFree();
    },
  };
}

function claim({ db, name: holder, retryPolicy }: SenderParts, most: number, slots: Slots): Promise<Claimed[]> {
  const seconds = claimSecondsOf(retryPolicy);
  const roomOf = (account: bigint): number => slots.roomOf(account);
  const claiming = { holder, seconds, most, except: slots.fullAccounts(), roomOf };
  return db.transaction(async (trx) => {
    const claimed: Claimed[] = [];
    for (const job of await deliveryJobs.claimDeliveryJobs(db, trx, claiming)) {
      const first = await headOfLine(trx, job.subject_id);
      if (!first) await deliveryJobs.finishDeliveryJob(trx, job);
      claimed.push({ job, first });
    }
    return claimed;
  });
}

/** The jobs being served at the moment, and their number for each account. */
class Slots {
  readonly #underWay = new Set<Promise<void>>();
  readonly #ofAccount = new Map<bigint, number>();

  get taken(): number {
    return this.#underWay.size;
  }

  fullAccounts(): bigint[] {
    return [...this.#ofAccount.keys()].filter((account) => this.roomOf(account) <= 0);
  }

  roomOf(account: bigint): number {
    return mostOfAccount - (this.#ofAccount.get(account) ?? 0);
  }

  /** Resolves when the work is over and its slot is free. */
  take(account: bigint, work: () => Promise<void>): Promise<void> {
    this.#ofAccount.set(account, (this.#ofAccount.get(account) ?? 0) + 1);
    const serving = work().finally(() => {
      const left = (this.#ofAccount.get(account) ?? 1) - 1;
      if (left > 0) this.#ofAccount.set(account, left);
      else this.#ofAccount.delete(account);
      this.#underWay.delete(serving);
    });
    this.#underWay.add(serving);
    return serving;
  }

  async allFree(): Promise<void> {
    await Promise.all(this.#underWay);
  }
}
