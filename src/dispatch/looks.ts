import type { FastifyBaseLogger } from 'fastify';
import { checkRunner, holdRunner, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Vault } from '../lib/vault.ts';
import { waitAfter } from '../lifecycle/poll-waits.ts';
import { claimLooks, nextLookAt, type ClaimedLook } from '../lifecycle/poll-claims.ts';
import { LookLostError, noteFailure, noteListing, noteUnchanged, pollsTopic } from '../lifecycle/polls.ts';
import { holdSeconds, lookSeconds, mostLooks, type LookOrder, type LookReport } from '../protocol.ts';
import type { HeldRequests } from './held-requests.ts';
import { sourceOf } from './sources.ts';

/** The server's half of looks at repositories that are polled. */
export interface Looks {
  /** Those that are due, as soon as some are; none when there were none for a while. */
  looks(runner: Runner, room: number, signal: AbortSignal): Promise<LookOrder[]>;
  looked(runner: Runner, reports: readonly LookReport[]): Promise<void>;
}

export interface LooksParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  subscriptions: Subscriptions;
  log: FastifyBaseLogger;
  held: Pick<HeldRequests, 'isQuiet' | 'closing'>;
}

/** A runner that is revoked is told so while it waits. */
const checkEvery = 1000;

export function createLooks({ db, ids, vault, subscriptions, log, held }: LooksParts): Looks {
  const take = (runner: Runner, room: number): Promise<ClaimedLook[]> => {
    const { holder, boundAs } = runner;
    return db.transaction(async (trx) => {
      const { isDraining } = await holdRunner(db, trx, runner);
      return isDraining
        ? []
        : claimLooks(db, trx, { holder, boundAs, room, most: mostLooks, claimMs: lookSeconds * 1000 });
    });
  };

  /** One whose key cannot be opened keeps nobody else from being looked at. */
  const orderOf = (look: ClaimedLook): LookOrder[] => {
    try {
      const againAfterMs = waitAfter(look.failures, look.poll_interval * 1000);
      return [{ claim: look.claim, source: sourceOf({ vault }, look), digest: look.digest, againAfterMs }];
    } catch (error) {
      log.error({ err: error, project: String(look.id) }, 'a repository cannot be polled');
      return [];
    }
  };

  const noteOne = async ({ projectId, claim, seen }: LookReport): Promise<void> => {
    const told = { projectId: BigInt(projectId), claim };
    try {
      await db.transaction(async (trx) => {
        if ('listing' in seen) await noteListing({ db, trx, ids }, told, seen.listing);
        else if ('failed' in seen) await noteFailure(trx, told, seen.message);
      });
    } catch (error) {
      if (isUnavailable(error)) throw error; // it is told again
      if (!(error instanceof LookLostError))
        log.error({ err: error, project: projectId }, 'recording the result of a poll failed');
    }
  };

  return {
    async looks(runner, room, signal) {
      using watch = subscriptions.watch(pollsTopic);
      const deadline = performance.now() + holdSeconds * 1000;
      let next = await nextLookAt(db.read, runner.boundAs);
      for (;;) {
        const isDue = next !== undefined && next <= Date.now();
        const taken = isDue && !held.isQuiet(runner.holder) ? await take(runner, room) : [];
        const left = deadline - performance.now();
        if (taken.length > 0 || left <= 0 || signal.aborted || held.closing.aborted)
          return taken.flatMap((look) => orderOf(look));
        // A look that is due and not given out waits for looks that are under way.
        const wait = isDue ? checkEvery : (next ?? Infinity) - Date.now();
        const heard = await watch.changed(Math.max(1, Math.min(wait, left, checkEvery)), signal);
        await checkRunner(db.read, runner);
        // Where nothing is polled, a request that waits costs no query until that changes.
        if (heard !== undefined || next !== undefined) next = await nextLookAt(db.read, runner.boundAs);
      }
    },

    async looked(_, reports) {
      const unchanged = Map.groupBy(reports.filter(isUnchanged), ({ claim }) => claim);
      if (unchanged.size > 0) {
        await db.transaction(async (trx) => {
          for (const [claim, those] of unchanged)
            await noteUnchanged(
              trx,
              claim,
              those.map(({ projectId }) => BigInt(projectId)),
            );
        });
      }
      for (const report of reports) if (!isUnchanged(report)) await noteOne(report);
    },
  };
}

function isUnchanged({ seen }: LookReport): boolean {
  return 'unchanged' in seen;
}
