import { setTimeout as pause } from 'node:timers/promises';
import { checkRunner, type Runner, type Standing } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { locationOf } from '../lifecycle/kept-builds.ts';
import { releasePollsOf } from '../triggers/poll-claims.ts';
import { DrainedError, type Order, type Wish } from '../../shared/protocol/index.ts';
import { claimsUnderWay, heldBy, jobOf } from '../queue/leases.ts';
import { isAnyWaiting, queueTopic } from '../queue/queue.ts';
import type { CallHandlers } from './calls.ts';
import type { Orders } from './orders.ts';
import { WaitingList } from './waiting-list.ts';

/** The free slots of the runners connected here. A runner requests orders with wishes, one for each free slot. */
export interface Dispatcher {
  /** Undefined if the wish has ended. Throws `DrainedError` if the runner is to stop. */
  next: CallHandlers['next'];
  /** Withdraws these wishes, or all. Resolves when they have ended. An order already in progress is still given. */
  leave(holder: string, claims?: readonly string[]): Promise<void>;
  /** Also finds work that was not announced, and ends the wishes of drained runners. */
  check(standings: ReadonlyMap<string, Standing>): Promise<void>;
  /**
   * Gives no more work here to this holder, or to any holder if none is named. Resolves when orders in progress are
   * stored.
   */
  quiet(holder?: string): Promise<void>;
  isQuiet(holder: string): boolean;
  /** A new runner has this name now, and gets work. */
  resume(holder: string): void;
  close(): void;
}

/** A drained runner that still has jobs waits this long for its response, because it asks again at once. */
const drainingMs = 1000;

interface OpenWish {
  holder: string;
  over: AbortController;
  ended: PromiseWithResolvers<void>;
}

const placeFor = ({ holder }: Runner, location: string | undefined): string | undefined =>
  location === undefined ? undefined : locationOf({ holder, location });

const takenBack = new Error('the runner has no free slot');
const given = new Error('the wish has its order');

export function createDispatcher(db: Database, orders: Pick<Orders, 'now' | 'serving'>): Dispatcher {
  const list = new WaitingList<Order>();
  const quiet = new Set<string>();
  let isForNobody = false;
  const isQuiet = (holder: string): boolean => isForNobody || quiet.has(holder);
  const notify = (): void => list.notify();
  const stop = db.listen((topic) => {
    if (topic === queueTopic) notify();
  }, notify);

  const wishes = new Map<string, OpenWish>();

  const waitFor = (
    caller: Runner,
    { claim, slot, holdMs, location: folder, isLeaving }: Wish,
    signal: AbortSignal,
  ): Promise<Order | undefined> => {
    const location = placeFor(caller, folder);
    const runner = { ...caller, slot, location, isLeaving };
    const waiting = {
      runner,
      group: [
        runner.boundAs ?? 'any',
        slot ?? 'both',
        runner.tags ?? '',
        location ?? '',
        isLeaving ? 'leaving' : '',
      ].join(' '),
      isServed: () => !isQuiet(runner.holder),
      isAny: () =>
        isAnyWaiting(
          db,
          orders.serving(runner).flatMap(({ kinds }) => kinds),
          { location, isLeaving },
        ),
      async attempt(isWanted: () => boolean) {
        if ((await checkRunner(db.read, runner)).isDraining) throw new DrainedError();
        return orders.now({ runner, name: claim }, () => isWanted() && !isQuiet(runner.holder));
      },
    };
    return list.wait(waiting, signal, holdMs);
  };

  const answerOf = async (
    runner: Runner,
    { claim, location: folder }: Wish,
  ): Promise<{ order: Order | undefined } | undefined> => {
    if (!(await jobOf(db.read, claim))) return undefined;
    const location = placeFor(runner, folder);
    return { order: await orders.now({ runner: { ...runner, location }, name: claim, mayBeGiven: true }) };
  };

  /** A claim may exist before its runner knows, if a response was lost. So it is checked before and after the wait. */
  const orderFor = async (runner: Runner, wish: Wish, signal: AbortSignal): Promise<Order | undefined> => {
    const before = await answerOf(runner, wish);
    if (before) return before.order;
    try {
      return (await waitFor(runner, wish, signal)) ?? (await answerOf(runner, wish))?.order;
    } catch (error) {
      const after = error instanceof DrainedError ? await answerOf(runner, wish) : undefined;
      if (after) return after.order;
      throw error;
    }
  };

  return {
    async next(runner, wish, signal) {
      // Recorded at once, because the wish may be withdrawn before the first query is over.
      const open = { holder: runner.holder, over: new AbortController(), ended: Promise.withResolvers<void>() };
      wishes.set(wish.claim, open);
      try {
        return await orderFor(runner, wish, AbortSignal.any([signal, open.over.signal]));
      } catch (error) {
        if (!(error instanceof DrainedError)) throw error;
        if ((await heldBy(db.read, runner.holder)).length === 0) {
          await db.transaction((trx) => releasePollsOf(db, trx, runner.holder));
          throw error;
        }
        await pause(drainingMs, undefined, { signal }).catch(() => {});
        return undefined;
      } finally {
        if (wishes.get(wish.claim) === open) wishes.delete(wish.claim);
        open.ended.resolve();
      }
    },

    async leave(holder, claims = [...wishes.keys()]) {
      const left = claims.flatMap((claim) => wishes.get(claim) ?? []).filter((wish) => wish.holder === holder);
      for (const wish of left) wish.over.abort(takenBack);
      await Promise.all(left.map((wish) => wish.ended.promise));
    },

    async check(standings) {
      const isDrained = ({ runner: { tokenHash = '' } }: { runner: Runner }): boolean =>
        standings.get(tokenHash)?.isDraining ?? false;
      list.fail(isDrained, new DrainedError());
      const open = new Map(wishes);
      const held = open.size > 0 ? await claimsUnderWay(db.read) : [];
      for (const claim of held) open.get(claim)?.over.abort(given);
      await list.check();
    },

    async quiet(holder) {
      if (holder === undefined) isForNobody = true;
      else quiet.add(holder);
      await list.settled();
    },
    isQuiet,
    resume(holder) {
      quiet.delete(holder);
      notify();
    },
    close: stop,
  };
}
