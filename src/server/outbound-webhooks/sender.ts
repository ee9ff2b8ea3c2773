import { sql, type SqlBool } from 'kysely';
import { isDatabaseFull } from '../db/open.ts';
import { headOfLine, type Outgoing } from '../lifecycle/webhook-deliveries.ts';
import { deliveryJobsTopic, deliveryKind, dropDeliveryJob } from '../queue/delivery-jobs.ts';
import * as due from '../queue/due.ts';
import { claimDue, freeAllOf, type ClaimedJob } from '../queue/leases.ts';
import { makeStrandedJobsDue } from '../queue/queue.ts';
import { claimSecondsOf, sendLine, type LineParts } from './line.ts';
import { longestOf } from './retry-policy.ts';

/**
 * Each notification with waiting deliveries has one job in the queue. The server that claims it sends them (line.ts).
 * After a failure the job is postponed with all its deliveries, at no cost to other jobs. If a server dies, its claims
 * expire and another server sends: at least once, with the same identifier.
 *
 * No account gets more than its share of the slots, so slow receivers block only their own account.
 */
export interface SenderParts extends LineParts {
  /** The holder of the claims. A server that restarts under the same name takes back its claims. */
  name: string;
  onError: (error: unknown) => void;
}

const mostAtOnce = 512;
const mostOfAccount = 128;
const mostPerClaim = 32;
/** Announcements can be lost. Only the database is certain. */
const checkEveryMs = 1000;

interface Claimed {
  job: ClaimedJob;
  first: Outgoing | undefined;
}

export async function startSender(parts: SenderParts): Promise<{ close(): Promise<void> }> {
  const { db, name: holder, retryPolicy, onError } = parts;
  await db
    .transaction((trx) => freeAllOf(trx, { holder, kind: deliveryKind }))
    .catch((error: unknown) => {
      if (!isDatabaseFull(error)) throw error; // on a full disk they are released when their claims expire
    });
  const busy = new Map<bigint, number>();
  const roomOf = (account: bigint): number => mostOfAccount - (busy.get(account) ?? 0);
  const count = (account: bigint, change: number): void => {
    const now = (busy.get(account) ?? 0) + change;
    if (now > 0) busy.set(account, now);
    else busy.delete(account);
  };
  const isUnclaimed = sql<SqlBool>`kind = ${sql.lit(deliveryKind)} and claim is null`;
  return due.startDueWork<Claimed>(db, {
    topic: deliveryJobsTopic,
    everyMs: checkEveryMs,
    most: mostAtOnce,
    nextAt: () => due.nextDue(db.read, due.jobs, isUnclaimed),
    whenSetBack: () => makeStrandedJobsDue(db, { kinds: [deliveryKind], longestWait: longestOf(retryPolicy) }),
    claim(room) {
      const seconds = claimSecondsOf(retryPolicy);
      const except = [...busy.keys()].filter((account) => roomOf(account) <= 0);
      const claiming = { kind: deliveryKind, holder, seconds, most: Math.min(room, mostPerClaim), roomOf, except };
      return db.transaction(async (trx) => {
        const claimed: Claimed[] = [];
        for (const job of await claimDue(db, trx, claiming)) {
          const first = await headOfLine(trx, job.subject_id);
          if (!first) await dropDeliveryJob(trx, job.subject_id);
          claimed.push({ job, first });
        }
        return claimed;
      });
    },
    /** If sending fails for an internal reason, the claim expires and another server tries again. */
    async serve(claimed, closing) {
      const { account_id: account } = claimed.job;
      count(account, 1);
      await sendLine(parts, claimed, closing).finally(() => count(account, -1));
    },
    onError,
  });
}
