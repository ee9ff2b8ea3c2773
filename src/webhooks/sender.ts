import { isDatabaseFull } from '../db/open.ts';
import { repeatLook } from '../lib/repeated-look.ts';
import { watchForSetBack } from '../lib/set-back.ts';
import { headOfLine, type Outgoing } from '../lifecycle/deliveries.ts';
import * as deliveryJobs from '../queue/delivery-jobs.ts';
import type { ClaimedDeliveryJob } from '../queue/delivery-jobs.ts';
import { claimSecondsOf, sendLine, type LineParts } from './line.ts';
import { longestOf } from './retry-policy.ts';

/**
 * Brings deliveries to their receivers. Each notification with something to send has one delivery job in the queue.
 * Whoever claims it sends what waits (line.ts). When the receiver does not take one, the job is put off and the whole
 * line waits with it, at no cost to anybody. A server that dies loses its claims, and another sends what it was sending:
 * at least once, under the same identifier.
 *
 * A slow receiver takes up one place among many. No account gets more than its share of the places, and after a number
 * of deliveries a job goes to the back of the queue, so that a long line does not keep out a short one.
 */
export interface SenderParts extends LineParts {
  /** Whose claims these are. A server that comes back under the same name takes up what it left. */
  name: string;
  trouble: (error: unknown) => void;
}

export interface Sender {
  close(): Promise<void>;
}

const mostAtOnce = 512;
const mostOfAccount = 128;
const mostPerLook = 32;
/** Announcements can be lost; what the store says is the truth. */
const lookEvery = 1000;

interface Claimed {
  job: ClaimedDeliveryJob;
  /** undefined when there is nothing left to send. */
  first: Outgoing | undefined;
}

export async function startSender(parts: SenderParts): Promise<Sender> {
  const { db, name, retryPolicy, trouble } = parts;
  const closing = new AbortController();
  const places = new Places();
  await deliveryJobs.freeDeliveryJobsOf(db, name).catch((error: unknown) => {
    if (!isDatabaseFull(error)) throw error; // on a full disk they are free when their claims lapse
  });

  const hasBeenSetBack = watchForSetBack();
  let isAnnounced = false;
  const looks = repeatLook(
    async () => {
      if (hasBeenSetBack()) await deliveryJobs.hurryDeliveryJobs(db, longestOf(retryPolicy));
      const room = mostAtOnce - places.taken;
      if (room <= 0) return lookEvery; // the first that is done looks again
      // What was just announced is claimed without asking first whether it is there.
      if (!isAnnounced) {
        const dueAt = await deliveryJobs.nextDeliveryJobAt(db.read);
        if (dueAt === undefined) return lookEvery;
        if (dueAt > Date.now()) return dueAt - Date.now();
      }
      const wasAnnounced = isAnnounced;
      isAnnounced = false;
      const claimed = await claim(parts, Math.min(room, mostPerLook), places.fullAccounts());
      for (const one of claimed) begin(one);
      // There may be more, and what is due next is known only now.
      return claimed.length > 0 || wasAnnounced ? 0 : lookEvery;
    },
    { everyMs: lookEvery, trouble },
  );
  const begin = (one: Claimed): void => {
    // When a call fails for a reason of our own, the claim lapses and somebody tries again.
    const serve = () => sendLine(parts, one, closing.signal).catch(trouble);
    void places.take(one.job.account_id, serve).then(() => looks.now());
  };

  const stopListening = db.listen(
    (topic) => {
      if (topic !== deliveryJobs.deliveryJobsTopic) return;
      isAnnounced = true;
      looks.now();
    },
    () => looks.now(),
  );
  looks.now();

  return {
    async close() {
      closing.abort();
      stopListening();
      await looks.close();
      await places.allFree();
    },
  };
}

function claim({ db, name: holder, retryPolicy }: SenderParts, most: number, except: bigint[]): Promise<Claimed[]> {
  const claiming = { holder, seconds: claimSecondsOf(retryPolicy), most, except };
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

/** Who is being served at the moment, and how many of each account. */
class Places {
  readonly #underWay = new Set<Promise<void>>();
  readonly #ofAccount = new Map<bigint, number>();

  get taken(): number {
    return this.#underWay.size;
  }

  fullAccounts(): bigint[] {
    return [...this.#ofAccount].filter(([, taken]) => taken >= mostOfAccount).map(([account]) => account);
  }

  /** Resolves when the work is over and its place is free. */
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
