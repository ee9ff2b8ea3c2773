import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../db/open.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { watchForSetBack } from '../../shared/lib/clock-set-back.ts';
import { makeStrandedPollsDue } from '../triggers/polls.ts';
import { claimSeconds, holdSeconds } from '../../shared/protocol/index.ts';
import { watchClaims } from '../queue/lapses.ts';
import * as queue from '../queue/queue.ts';
import { longestPutOff } from './orders.ts';
import { packSeconds } from './log-packer.ts';
import { packKind, type Outcomes } from './outcomes.ts';

const everyMs = 2000;

export interface CleanupParts {
  db: Database;
  kinds: readonly string[];
  outcomes: Pick<Outcomes, 'lose'>;
  log: FastifyBaseLogger;
}

/** Regularly handles expired claims, and jobs and polls that a wrong clock postponed for too long. */
export interface Cleanup {
  run(): Promise<void>;
  close(): Promise<void>;
}

export async function startCleanup({ db, kinds, outcomes, log }: CleanupParts): Promise<Cleanup> {
  const claims = watchClaims(db, {
    claimMs: (kind) => (kind === packKind ? packSeconds : claimSeconds) * 1000,
    atStart: holdSeconds * 1000,
    everyMs,
  });
  await claims.findLapsed();
  const hasBeenSetBack = watchForSetBack();
  const run = async (): Promise<void> => {
    if (hasBeenSetBack()) {
      await queue.makeStrandedJobsDue(db, { kinds, longestWait: longestPutOff });
      await makeStrandedPollsDue(db);
    }
    for (const job of await claims.findLapsed()) {
      log.warn({ holder: job.holder, kind: job.kind, subject: String(job.subject_id) }, 'claim expired');
      // Any server repeats a server's job. Only a runner's job has work to lose.
      if (kinds.includes(job.kind)) await outcomes.lose(job);
      else await db.transaction((trx) => queue.release(db, trx, job));
    }
  };
  const repeating = repeatedly(everyMs, run, (error) => log.error({ err: error }, 'sweep of expired claims failed'));
  return { run, close: () => repeating.stop() };
}
