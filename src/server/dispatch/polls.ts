import type { FastifyBaseLogger } from 'fastify';
import { holdRunner, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { pollWait } from '../triggers/poll-waits.ts';
import { claimPolls, holdPolls, nextPollAt, type ClaimedPoll } from '../triggers/poll-claims.ts';
import { PollLostError, noteFailure, noteListing, noteUnchanged, pollsTopic } from '../triggers/polls.ts';
import { pollSeconds, mostPolls, type PollOrder, type PollReport } from '../../shared/protocol/index.ts';
import type { CallHandlers } from './calls.ts';
import { sourceOf } from './sources.ts';
import { WaitingList } from './waiting-list.ts';
import type { Observers } from '../lifecycle/write-context.ts';

export interface Polls extends Pick<CallHandlers, 'polls' | 'polled'> {
  check(): Promise<void>;
  close(): void;
}

export interface PollsParts {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  isQuiet: (holder: string) => boolean;
  log: FastifyBaseLogger;
}

export function createPolls({ db, ids, observers, vault, isQuiet, log }: PollsParts): Polls {
  const list = new WaitingList<ClaimedPoll[]>();
  const notify = (): void => list.notify();
  const stop = db.listen((topic) => {
    if (topic === pollsTopic) notify();
  }, notify);
  /** Undefined if no poll is due. A drained runner gets an empty list, and does not wait. */
  const take = (runner: Runner, room: number): Promise<ClaimedPoll[] | undefined> => {
    const { holder, boundAs } = runner;
    return db.transaction(async (trx) => {
      const { isDraining } = await holdRunner(db, trx, runner);
      if (isDraining) return [];
      const claiming = { holder, boundAs, room, most: mostPolls, claimMs: pollSeconds * 1000 };
      const taken = await claimPolls(db, trx, claiming);
      return taken.length > 0 ? taken : undefined;
    });
  };

  /** A project whose key or token cannot be opened must not stop other polls. */
  const orderOf = async (poll: ClaimedPoll): Promise<PollOrder[]> => {
    try {
      const againAfterMs = pollWait(poll.failures, poll.poll_interval * 1000);
      const source = await sourceOf(db.read, vault, poll);
      return [{ claim: poll.claim, source, digest: poll.digest, againAfterMs }];
    } catch (error) {
      if (isUnavailable(error)) throw error;
      log.error({ err: error, project: String(poll.id) }, 'a repository cannot be polled');
      return [];
    }
  };

  const noteOne = async ({ projectId, claim, seen }: PollReport): Promise<void> => {
    const report = { projectId: BigInt(projectId), claim };
    try {
      await db.transaction(async (trx) => {
        if ('listing' in seen) await noteListing({ db, trx, ids, observers }, report, seen.listing);
        else if ('failed' in seen) await noteFailure({ db, trx }, report, seen.message);
      });
    } catch (error) {
      if (isUnavailable(error)) throw error; // the runner reports it again
      if (!(error instanceof PollLostError))
        log.error({ err: error, project: projectId }, 'recording the result of a poll failed');
    }
  };

  return {
    async polls(runner, { room }, signal) {
      const { boundAs } = runner;
      const taken = await list.wait(
        {
          runner,
          group: String(boundAs ?? 'any'),
          isServed: () => !isQuiet(runner.holder),
          isAny: async () => (await nextPollAt(db.read, boundAs)) <= Date.now(),
          attempt: () => take(runner, room),
        },
        signal,
      );
      const orders: PollOrder[] = [];
      for (const poll of taken ?? []) orders.push(...(await orderOf(poll)));
      return orders;
    },

    async polled(_, { reports }) {
      const unchanged = Map.groupBy(reports.filter(isUnchanged), ({ claim }) => claim);
      if (unchanged.size > 0) {
        await db.transaction(async (trx) => {
          await holdPolls(db, trx, (all) => all.where('claim', 'in', [...unchanged.keys()]));
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

function isUnchanged({ seen }: PollReport): boolean {
  return 'unchanged' in seen;
}
