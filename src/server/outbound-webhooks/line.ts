import type { Database } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { createMask, type Mask } from '../../shared/domain/masking.ts';
import {
  giveUpOn,
  headOfLine,
  markDelivered,
  markRefused,
  recordAttempt,
  type Outgoing,
} from '../lifecycle/webhook-deliveries.ts';
import { suspect } from '../lifecycle/forge-holds.ts';
import { end, extend, free, type ClaimedJob } from '../queue/leases.ts';
import type { CallResult, CallRules, Verdict } from './http-call.ts';
import { restWanted, verdictOf } from './statuses.ts';
import { sendingOf, type CallParts } from './payload.ts';
import { retryWait, type RetryPolicy } from './retry-policy.ts';

export interface LineParts extends CallParts {
  db: Database;
  ids: IdSource;
  retryPolicy: RetryPolicy;
  callRules: Pick<CallRules, 'mayCall' | 'resolve' | 'trust'>;
  attempted: (outcome: 'delivered' | 'failed') => void;
}

/** After this many deliveries the job moves to the end of the queue. */
const mostPerClaim = 50;

/** One call, and the time to store its result. */
export function claimSecondsOf({ answerWithin }: RetryPolicy): number {
  return answerWithin / 1000 + 5;
}

/** Stores each result before the next call. Ends when no delivery is left, one fails, or the limit is reached. */
export async function sendLine(
  parts: LineParts,
  { job, first }: { job: ClaimedJob; first: Outgoing | undefined },
  closing: AbortSignal,
): Promise<void> {
  const { callRules, attempted, retryPolicy } = parts;
  const rules = { ...callRules, answerWithin: retryPolicy.answerWithin, signal: closing };
  let { tries } = job;
  let next = first;
  let mask: Mask | undefined; // all deliveries of a line have one receiver and the same secrets
  for (let sent = 0; next && sent < mostPerClaim; sent += 1) {
    const sending = await sendingOf(next, parts);
    mask ??= createMask(sending.secrets);
    const attempt = await sending.send({ ...rules, mask });
    const verdict = verdictOf(next.name, attempt, tries + 1);
    if (closing.aborted && verdict !== 'taken') break;
    attempted(verdict === 'taken' ? 'delivered' : 'failed');
    const sentTo = next;
    const retryAfterMs = restWanted(sentTo.name, attempt);
    next = await recordOutcome(parts, { job, tries }, sentTo, { ...attempt, retryAfterMs, verdict });
    if (attempt.status === 401 && sentTo.forge_id !== null)
      await parts.db.transaction((trx) => suspect({ db: parts.db, trx }, sentTo.project_id));
    tries = 0; // the failures belong to the finished delivery
    if (closing.aborted) break;
  }
  if (!next) return;
  const changes = { run_after: BigInt(Date.now()), tries };
  await parts.db.transaction((trx) => free(trx, job, changes));
}

function recordOutcome(
  { db, ids, retryPolicy }: LineParts,
  { job, tries }: { job: ClaimedJob; tries: number },
  sent: Outgoing,
  { verdict, retryAfterMs = 0, ...attempt }: CallResult & { verdict: Verdict },
): Promise<Outgoing | undefined> {
  return db.transaction(async (trx) => {
    const claim = { holder: job.holder ?? '', claims: [job.claim], seconds: claimSecondsOf(retryPolicy) };
    const isHeld = (await extend(db, trx, claim)) === 1;
    await recordAttempt({ trx, ids }, sent.id, attempt);
    if (verdict === 'taken') await markDelivered(trx, sent.id);
    if (verdict === 'refused') await markRefused(trx, sent.id);
    if (!isHeld) return undefined;
    const now = Date.now();
    if (verdict === 'not_taken') await giveUpOn(trx, job.subject_id, now - retryPolicy.giveUpAfter);
    const next = await headOfLine(trx, job.subject_id);
    if (!next) await end(trx, job);
    else if (verdict !== 'not_taken') return next;
    else {
      const failures = tries + 1;
      const runAfter = now + Math.max(retryWait(failures, retryPolicy), retryAfterMs);
      await free(trx, job, { run_after: BigInt(Math.ceil(runAfter)), tries: failures });
    }
    return undefined;
  });
}
