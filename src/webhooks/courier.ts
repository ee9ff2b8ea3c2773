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
import { takeErrands } from '../queue/errand-takers.ts';
import * as errands from '../queue/errands.ts';
import type { ClaimedErrand } from '../queue/errands.ts';
import { letterFor } from './letter.ts';
import { longestOf, waitAfter, type Patience } from './patience.ts';
import { post, type Postage } from './post.ts';

/**
 * Brings deliveries to their receivers. Each notification with something to send has one errand in the queue. Whoever
 * claims it sends what waits, one after the other in order, and notes each outcome before the next. When the receiver
 * takes one, the next follows; when it does not, the errand is put off and the whole line waits with it, at no cost to
 * anybody. A server that dies loses its claims, and another sends what it was sending: at least once, under the same
 * identifier.
 *
 * A slow receiver takes up one place among many. No account gets more than its share of the places, and after a number
 * of deliveries an errand goes to the back of the queue, so that a long line does not keep out a short one.
 */
export interface CourierParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  /** Whose claims these are. A server that comes back under the same name takes up what it left. */
  name: string;
  patience: Patience;
  postage: Pick<Postage, 'mayCall' | 'resolve'>;
  attempted: (outcome: 'delivered' | 'failed') => void;
  trouble: (error: unknown) => void;
}

export interface Courier {
  close(): Promise<void>;
}

const mostAtOnce = 512;
const mostOfAccount = 128;
const mostPerClaim = 32;
const mostPerErrand = 50;
/** Announcements can be lost; what the store says is the truth. */
const lookEvery = 1000;

interface Run {
  errand: ClaimedErrand;
  /** undefined when there is nothing left to send. */
  first: Outgoing | undefined;
}

export async function startCourier(parts: CourierParts): Promise<Courier> {
  const { db, ids, vault, name, patience, postage, attempted, trouble } = parts;
  const claimSeconds = patience.answerWithin / 1000 + 5;
  const closing = new AbortController();
  const underWay = new Set<Promise<void>>();
  const ofAccount = new Map<bigint, number>();
  await errands.freeErrandsOf(db, name).catch((error: unknown) => {
    if (!isDatabaseFull(error)) throw error; // on a full disk they are free when their claims lapse
  });

  const isBusy = (account: bigint): boolean => (ofAccount.get(account) ?? 0) >= mostOfAccount;
  // One that is taken from birth is begun when its commit is heard of.
  const takes = (account: bigint): boolean =>
    underWay.size < mostAtOnce && !isBusy(account) && !closing.signal.aborted && db.hears();

  const claim = (most: number): Promise<Run[]> =>
    db.transaction(async (trx) => {
      const claiming = { holder: name, seconds: claimSeconds, most, except: [...ofAccount.keys()].filter(isBusy) };
      const runs: Run[] = [];
      for (const errand of await errands.claimErrands(db, trx, claiming)) {
        const first = await headOfLine(trx, errand.subject_id);
        if (!first) await errands.finishErrand(trx, errand);
        runs.push({ errand, first });
      }
      return runs;
    });

  /** Notes what came of an attempt, and answers what is to be sent next under the same claim. */
  const settle = (
    errand: ClaimedErrand,
    tries: number,
    sent: Outgoing,
    attempt: Attempt,
  ): Promise<Outgoing | undefined> =>
    db.transaction(async (trx) => {
      const held = await errands.holdErrand(db, trx, errand, claimSeconds);
      await recordAttempt({ trx, ids }, sent.id, attempt);
      if (isTaken(attempt)) await markDelivered(trx, sent.id);
      if (!held) return undefined;
      const now = Date.now();
      if (!isTaken(attempt)) await giveUpOn(trx, errand.subject_id, now - patience.giveUpAfter);
      const next = await headOfLine(trx, errand.subject_id);
      if (!next) await errands.finishErrand(trx, errand);
      else if (isTaken(attempt)) return next;
      else
        await errands.putOffErrand(trx, errand, { runAfter: now + waitAfter(tries + 1, patience), tries: tries + 1 });
      return undefined;
    });

  const giveBack = (errand: ClaimedErrand, tries: number): Promise<void> =>
    db.transaction((trx) => errands.putOffErrand(trx, errand, { runAfter: Date.now(), tries }));

  const run = async ({ errand, first }: Run): Promise<void> => {
    let { tries } = errand;
    let next = first;
    for (let sent = 0; next && sent < mostPerErrand; sent += 1) {
      const { answerWithin } = patience;
      const attempt = await post(letterFor(next, vault), { ...postage, answerWithin, signal: closing.signal });
      if (closing.signal.aborted && !isTaken(attempt)) return giveBack(errand, tries);
      attempted(isTaken(attempt) ? 'delivered' : 'failed');
      next = await settle(errand, tries, next, attempt);
      tries = 0; // whatever follows under this claim follows a success
      if (closing.signal.aborted) break;
    }
    if (next) await giveBack(errand, tries);
  };

  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let again = false;

  const hasBeenSetBack = watchForSetBack();
  const lookOnce = async (): Promise<number> => {
    if (hasBeenSetBack()) await errands.hurryErrands(db, longestOf(patience));
    const room = mostAtOnce - underWay.size;
    if (room <= 0) return lookEvery; // the first that is done looks again
    const dueAt = await errands.nextErrandAt(db.read);
    if (dueAt === undefined) return lookEvery;
    if (dueAt > Date.now()) return dueAt - Date.now();
    const runs = await claim(Math.min(room, mostPerClaim));
    for (const one of runs) begin(one);
    if (runs.length > 0) again = true; // there may be more, and what is due next is known only now
    return lookEvery;
  };

  const begin = (one: Run): void => {
    const { account_id: account } = one.errand;
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

  /** One that was this server's from birth. Many may be born in one transaction: there are still only so many places. */
  const beginOwn = async (errand: ClaimedErrand): Promise<void> => {
    const first = takes(errand.account_id) ? await headOfLine(db.read, errand.subject_id) : undefined;
    if (first && takes(errand.account_id)) begin({ errand, first });
    else await giveBack(errand, 0);
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
    if (topic === errands.errandsTopic) look();
  }, look);
  const own = { holder: name, seconds: claimSeconds, takes };
  const stopTaking = takeErrands(db, own, (errand) => follow(beginOwn(errand)));
  look();

  return {
    async close() {
      closing.abort();
      stopTaking();
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
