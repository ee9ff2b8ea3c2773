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
import type { CallHandlers } from './calls.ts';
import { sourceOf } from './sources.ts';
import { WaitingList } from './waiting-list.ts';
import type { Observers } from '../lifecycle/write-context.ts';

/** The server's side of polling: gives runners the polls that are due, and stores the results. */
export interface Looks extends Pick<CallHandlers, 'looks' | 'looked'> {
  /** Looks whether a poll is due. */
  check(): Promise<void>;
  close(): void;
}

export interface LooksParts {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  /** Whether a holder gets nothing here any more. */
  isQuiet: (holder: string) => boolean;
  log: FastifyBaseLogger;
}

export function createLooks({ db, ids, observers, vault, isQuiet, log }: LooksParts): Looks {
  const list = new WaitingList<ClaimedLook[]>();
  const tell = (): void => list.tell();
  const stop = db.listen((topic) => {
    if (topic === pollsTopic) tell();
  }, tell);
  /** Undefined where none is for this runner at the moment. One that is drained waits no longer. */
  const take = (runner: Runner, room: number): Promise<ClaimedLook[] | undefined> => {
    const { holder, boundAs } = runner;
    return db.transaction(async (trx) => {
      const { isDraining } = await holdRunner(db, trx, runner);
      if (isDraining) return [];
      const claiming = { holder, boundAs, room, most: mostLooks, claimMs: lookSeconds * 1000 };
      const taken = await claimLooks(db, trx, claiming);
      return taken.length > 0 ? taken : undefined;
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
    async looks(runner, { room }, signal) {
      const { boundAs } = runner;
      const taken = await list.wait(
        {
          runner,
          line: String(boundAs ?? 'any'),
          isServed: () => !isQuiet(runner.holder),
          isAny: async () => ((await nextLookAt(db.read, boundAs)) ?? Infinity) <= Date.now(),
          attempt: () => take(runner, room),
        },
        signal,
      );
      return (taken ?? []).flatMap((look) => orderOf(look));
    },

    async looked(_, { reports }) {
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

    check: () => list.check(),
    close: stop,
  };
}

function isUnchanged({ seen }: LookReport): boolean {
  return 'unchanged' in seen;
}
