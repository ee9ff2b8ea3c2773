import type { FastifyBaseLogger } from 'fastify';
import { holdRunner, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Vault } from '../lib/vault.ts';
import { waitAfter } from '../lifecycle/poll-waits.ts';
import { claimLooks, nextLookAt, type ClaimedLook } from '../lifecycle/poll-claims.ts';
import { LookLostError, noteFailure, noteListing, noteUnchanged, pollsTopic } from '../lifecycle/polls.ts';
import { lookSeconds, mostLooks, type LookOrder, type LookReport } from '../protocol/index.ts';
import type { HeldRequests } from './held-requests.ts';
import { sourceOf } from './sources.ts';
import { waitingLines } from './waiting-line.ts';
import type { Observers } from '../lifecycle/write-context.ts';

/** The server's side of polling: gives runners the polls that are due, and stores the results. */
export interface Looks {
  /** The polls that are due, as soon as there are some; none when there were none while the request was held. */
  looks(runner: Runner, room: number, signal: AbortSignal): Promise<LookOrder[]>;
  looked(runner: Runner, reports: readonly LookReport[]): Promise<void>;
  /** Wakes a held request if a poll is due. */
  check(): Promise<void>;
  close(): void;
}

export interface LooksParts {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  held: HeldRequests;
  /** How long a request is held. */
  holdMs: number;
  log: FastifyBaseLogger;
}

export function createLooks({ db, ids, observers, vault, held, holdMs, log }: LooksParts): Looks {
  const lines = waitingLines(db, pollsTopic);
  const take = (runner: Runner, room: number): Promise<ClaimedLook[]> => {
    const { holder, boundAs } = runner;
    return db.transaction(async (trx) => {
      const { isDraining } = await holdRunner(db, trx, runner);
      return isDraining
        ? []
        : claimLooks(db, trx, { holder, boundAs, room, most: mostLooks, claimMs: lookSeconds * 1000 });
    });
  };

  /** A project whose key cannot be opened must not stop the polls of others. */
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
        if ('listing' in seen) await noteListing({ db, trx, ids, observers }, told, seen.listing);
        else if ('failed' in seen) await noteFailure(trx, told, seen.message);
      });
    } catch (error) {
      if (isUnavailable(error)) throw error; // the runner reports it again
      if (!(error instanceof LookLostError))
        log.error({ err: error, project: projectId }, 'recording the result of a poll failed');
    }
  };

  return {
    async looks(runner, room, signal) {
      if (held.isQuiet(runner.holder)) {
        await held.whileQuiet(signal);
        return [];
      }
      using asking = held.hold(runner, signal);
      const isAny = async (): Promise<boolean> =>
        ((await nextLookAt(db.read, runner.boundAs)) ?? Infinity) <= Date.now();
      using place = lines.join(String(runner.boundAs ?? 'any'), isAny);
      const deadline = performance.now() + holdMs;
      let taken = (await isAny()) ? await take(runner, room) : [];
      while (taken.length === 0 && !asking.signal.aborted) {
        const patience = { ms: deadline - performance.now(), signal: asking.signal };
        if (patience.ms <= 0) break;
        const look = async (isMore: (more: boolean) => void): Promise<ClaimedLook[]> => {
          const found = (await isAny()) ? await take(runner, room) : [];
          isMore(found.length > 0 && found.length === room); // there may be more than this runner has room for
          return found;
        };
        taken = (await place.look(patience, look)) ?? [];
      }
      if (taken.length === 0) asking.throwIfRefused();
      return taken.flatMap((look) => orderOf(look));
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

    check: () => lines.check(),
    close: () => lines.close(),
  };
}

function isUnchanged({ seen }: LookReport): boolean {
  return 'unchanged' in seen;
}
