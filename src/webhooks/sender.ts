import { isDatabaseFull, type Database } from '../db/open.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Vault } from '../lib/vault.ts';
import { watchForSetBack } from '../lib/set-back.ts';
import {
  giveUpOn,
  headOfLine,
  markDelivered,
  recordAttempt,
  type Attempt,
  type Outgoing,
} from '../lifecycle/deliveries.ts';
import * as deliveryJobs from '../queue/delivery-jobs.ts';
import type { ClaimedDeliveryJob } from '../queue/delivery-jobs.ts';
import { callFor } from './payload.ts';
import { longestOf, waitAfter, type RetryPolicy } from './retry-policy.ts';
import { makeCall, type CallRules } from './http-call.ts';

/**
 * Brings deliveries to their receivers. Each notification with something to send has one delivery job in the queue. Whoever
 * claims it sends what waits, one after the other in order, and notes each outcome before the next. When the receiver
 * takes one, the next follows; when it does not, the delivery job is put off and the whole line waits with it, at no cost to
 * anybody. A server that dies loses its claims, and another sends what it was sending: at least once, under the same
 * identifier.
 *
 * A slow receiver takes up one place among many. No account gets more than its share of the places, and after a number
 * of deliveries a delivery job goes to the back of the queue, so that a long line does not keep out a short one.
 */
export interface SenderParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  /** Whose claims these are. A server that comes back under the same name takes up what it left. */
  name: string;
  retryPolicy: RetryPolicy;
  callRules: Pick<CallRules, 'mayCall' | 'resolve'>;
  attempted: (outcome: 'delivered' | 'failed') => void;
  trouble: (error: unknown) => void;
}

export interface Sender {
  close(): Promise<void>;
}

const mostAtOnce = 512;
const mostOfAccount = 128;
const mostPerClaim = 32;
const mostPerDeliveryJob = 50;
/** Announcements can be lost; what the store says is the truth. */
const lookEvery = 1000;

interface Run {
  job: ClaimedDeliveryJob;
  /** undefined when there is nothing left to send. */
  first: Outgoing | undefined;
}

export async function startSender(parts: SenderParts): Promise<Sender> {
  const { db, ids, vault, name, retryPolicy, callRules, attempted, trouble } = parts;
  const claimSeconds = retryPolicy.answerWithin / 1000 + 5;
  const closing = new AbortController();
  const underWay = new Set<Promise<void>>();
  const ofAccount = new Map<bigint, number>();
  await deliveryJobs.freeDeliveryJobsOf(db, name).catch((error: unknown) => {
    if (!isDatabaseFull(error)) throw error; // on a full disk they are free when their claims lapse
  });

  const isBusy = (account: bigint): boolean => (ofAccount.get(account) ?? 0) >= mostOfAccount;
  const claim = (most: number): Promise<Run[]> =>
    db.transaction(async (trx) => {
      const claiming = { holder: name, seconds: claimSeconds, most, except: [...ofAccount.keys()].filter(isBusy) };
      const runs: Run[] = [];
      for (const job of await deliveryJobs.claimDeliveryJobs(db, trx, claiming)) {
        const first = await headOfLine(trx, job.subject_id);
        if (!first) await deliveryJobs.finishDeliveryJob(trx, job);
        runs.push({ job, first });
      }
      return runs;
    });

  /** Notes what came of an attempt, and answers what is to be sent next under the same claim. */
  const recordOutcome = (
    job: ClaimedDeliveryJob,
    tries: number,
    sent: Outgoing,
    attempt: Attempt,
  ): Promise<Outgoing | undefined> =>
    db.transaction(async (trx) => {
      const held = await deliveryJobs.holdDeliveryJob(db, trx, job, claimSeconds);
      await recordAttempt({ trx, ids }, sent.id, attempt);
      if (isTaken(attempt)) await markDelivered(trx, sent.id);
      if (!held) return undefined;
      const now = Date.now();
      if (!isTaken(attempt)) await giveUpOn(trx, job.subject_id, now - retryPolicy.giveUpAfter);
      const next = await headOfLine(trx, job.subject_id);
      if (!next) await deliveryJobs.finishDeliveryJob(trx, job);
      else if (isTaken(attempt)) return next;
      else
        await deliveryJobs.putOffDeliveryJob(trx, job, {
          runAfter: now + waitAfter(tries + 1, retryPolicy),
          tries: tries + 1,
        });
      return undefined;
    });

  const giveBack = (job: ClaimedDeliveryJob, tries: number): Promise<void> =>
    db.transaction((trx) => deliveryJobs.putOffDeliveryJob(trx, job, { runAfter: Date.now(), tries }));

  const run = async ({ job, first }: Run): Promise<void> => {
    let { tries } = job;
    let next = first;
    for (let sent = 0; next && sent < mostPerDeliveryJob; sent += 1) {
      const { answerWithin } = retryPolicy;
      const attempt = await makeCall(callFor(next, vault), { ...callRules, answerWithin, signal: closing.signal });
      if (closing.signal.aborted && !isTaken(attempt)) return giveBack(job, tries);
      attempted(isTaken(attempt) ? 'delivered' : 'failed');
      next = await recordOutcome(job, tries, next, attempt);
      tries = 0; // whatever follows under this claim follows a success
      if (closing.signal.aborted) break;
    }
    if (next) await giveBack(job, tries);
  };

  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let again = false;

  const hasBeenSetBack = watchForSetBack();
  const lookOnce = async (): Promise<number> => {
    if (hasBeenSetBack()) await deliveryJobs.hurryDeliveryJobs(db, longestOf(retryPolicy));
    const room = mostAtOnce - underWay.size;
    if (room <= 0) return lookEvery; // the first that is done looks again
    const dueAt = await deliveryJobs.nextDeliveryJobAt(db.read);
    if (dueAt === undefined) return lookEvery;
    if (dueAt > Date.now()) return dueAt - Date.now();
    const runs = await claim(Math.min(room, mostPerClaim));
    for (const one of runs) begin(one);
    if (runs.length > 0) again = true; // there may be more, and what is due next is known only now
    return lookEvery;
  };

  const begin = (one: Run): void => {
    const { account_id: account } = one.job;
    ofAccount.set(account, (ofAccount.get(account) ?? 0) + 1);
    const leave = (): void => {
      const left = (ofAccount.get(account) ?? 1) - 1;
      if (left > 0) ofAccount.set(account, left);
      else ofAccount.delete(account);
    };
    follow(run(one).finally(leave));
  };

  const follow = (work: Promise<void>): void => {
    const followed = work
      .catch(trouble) // its claim lapses, and somebody tries again
      .finally(() => {
        underWay.delete(followed);
        look();
      });
    underWay.add(followed);
  };

  const look = (): void => {
    again = true;
    if (looking || closing.signal.aborted) return;
    clearTimeout(timer);
    looking = (async () => {
      let wait = lookEvery;
      while (again && !closing.signal.aborted) {
        again = false;
        wait = await lookOnce().catch((error: unknown) => {
          trouble(error);
          return lookEvery;
        });
      }
      looking = undefined;
      if (!closing.signal.aborted) timer = setTimeout(look, Math.min(wait, lookEvery));
    })();
  };

  const stopListening = db.listen((topic) => {
    if (topic === deliveryJobs.deliveryJobsTopic) look();
  }, look);
  look();

  return {
    async close() {
      closing.abort();
      stopListening();
      clearTimeout(timer);
      await looking;
      await Promise.all(underWay);
    },
  };
}

function isTaken({ status }: Attempt): boolean {
  return status !== null && status >= 200 && status < 300;
}
