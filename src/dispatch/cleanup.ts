import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../db/open.ts';
import { repeatedly } from '../lib/repeatedly.ts';
import { watchForSetBack } from '../lib/clock-set-back.ts';
import { hurryStrandedPolls } from '../lifecycle/polls.ts';
import { claimSeconds, holdSeconds } from '../protocol/index.ts';
import { watchClaims } from '../queue/lapses.ts';
import * as queue from '../queue/queue.ts';
import { hurryStranded } from '../queue/stranded.ts';
import { longestPutOff } from './orders.ts';
import { packSeconds, type Packing } from './log-packer.ts';
import { packKind, type Settling } from './outcomes.ts';

const everyMs = 2000;

export interface SweepingParts {
  db: Database;
  /** The kinds of jobs that runners do. */
  kinds: readonly string[];
  settling: Pick<Settling, 'lose'>;
  packing: Pick<Packing, 'look'>;
  log: FastifyBaseLogger;
}

/** Regularly finds claims that expired, work that a clock put off for too long, and logs to pack. */
export interface Sweeping {
  sweep(): Promise<void>;
  close(): Promise<void>;
}

export async function startSweeping({ db, kinds, settling, packing, log }: SweepingParts): Promise<Sweeping> {
  const claims = watchClaims(db, {
    claimMs: (kind) => (kind === packKind ? packSeconds : claimSeconds) * 1000,
    atStart: holdSeconds * 1000,
    everyMs,
  });
  await claims.look();
  const hasBeenSetBack = watchForSetBack();
  const sweep = async (): Promise<void> => {
    if (hasBeenSetBack()) {
      await hurryStranded(db, { kinds, longestWait: longestPutOff });
      await hurryStrandedPolls(db);
    }
    for (const job of await claims.look()) {
      log.warn({ holder: job.holder, kind: job.kind, subject: String(job.subject_id) }, 'claim expired');
      // The jobs of servers are simply done again. Only the jobs of runners have something to lose.
      if (kinds.includes(job.kind)) await settling.lose(job);
      else await db.transaction((trx) => queue.release(db, trx, job));
    }
    await packing.look();
  };
  const sweeping = repeatedly(everyMs, sweep, (error) => log.error({ err: error }, 'sweep of expired claims failed'));
  return { sweep, close: () => sweeping.stop() };
}
