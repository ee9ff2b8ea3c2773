import { chmod, mkdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { messageOf } from '../shared/lib/error-code.ts';
import { fetchSlots, type SlotKind } from '../shared/domain/runner-slots.ts';
import { randomName } from '../shared/lib/random-name.ts';
import {
  DrainedError,
  type FinishReport,
  type Link,
  type Order,
  type Outcome,
  type Wish,
} from '../shared/protocol/index.ts';
import { Claims } from './claims.ts';
import { BrokenServerError } from './failures.ts';
import { deliverOutbox, emptyOutbox } from './deliver-outbox.ts';
import type { RunnerDeps } from './job-runner.ts';
import { IdleTime } from './idle-time.ts';
import { foldersOf } from './leftovers.ts';
import { pollRepositories } from './polls.ts';
import { claimLost, perform } from './perform.ts';
import { unlessBroken, untilAnswered } from './retry.ts';
import { serveShells } from './shells.ts';
import { keepUp } from './upkeep.ts';

export interface RunnerOptions {
  link: Link;
  folder: string;
  /** Closed when the runner ends. */
  deps: RunnerDeps;
  concurrency: number;
  log: (message: string) => void;
  /** Ends after one job, or if no job came within `idleMs`. */
  once?: ShortLife | undefined;
  /** Ends when no job came within `idleMs`, in any slot. Time without a server does not count. */
  untilIdle?: ShortLife | undefined;
  /** Replaces the usual pauses between cleanups. */
  upkeepEveryMs?: number;
  /** How often an outcome is reported if the server fails at it. */
  finishTries?: number;
}

interface ShortLife {
  idleMs: number;
  /** The longest wait at the end until its jobs' files are uploaded. */
  emptyWithinMs?: number;
}

export interface Runner {
  done: Promise<void>;
  isBusy(): boolean;
  /** Takes no more work, and ends when its jobs are done. */
  drain(): void;
  /** Takes no more work, gives up its jobs, and removes their files. */
  stop(): Promise<void>;
}

/** With the pauses between the tries, about a minute. */
const finishTries = 35;

const stopped = new Error('the runner was stopped');

/** A short-lived runner waits this long for its outbox to empty: its disk may be deleted with it. */
const emptyWithinMs = 30 * 60_000;
/** How long it waits after a job for the order to pack its retained files. */
const packWithinMs = 5000;
/** If no server responds, the wait for an order ends this long after its time is over. */
const awayMs = 30_000;
/**
 * A scheduler that ends a runner's own job kills the processes of the build and the runner in any order. Such a build
 * only appears to fail. So after a failure the runner waits this long for its own stop signal.
 */
const endingMs = 500;

function isGood(outcome: Outcome): boolean {
  return outcome.kind === 'exited' ? outcome.status === 0 : goodEnds.has(outcome.kind);
}

const goodEnds: ReadonlySet<Outcome['kind']> = new Set([
  'fetched',
  'checked',
  'inputs',
  'compiled',
  'pushed',
  'cancelled',
]);

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { link, folder, deps, log, concurrency } = options;
  const shortLife = options.once ?? options.untilIdle;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Builds may leave setuid programs there, and other users of the machine must not start them.
  await chmod(folder, 0o700);
  const { spool } = foldersOf(folder);
  await mkdir(spool, { recursive: true, mode: 0o700 });

  const ending = new AbortController();
  const { signal } = ending;
  const claims = new Claims();
  const wished = new Set<string>();
  const server = new Contact(log);
  const ask = <T>(work: () => Promise<T>): Promise<T> =>
    untilAnswered(signal, async () => server.answered(await work()), server.away);

  let isDraining = false;
  const takesMore = (): boolean => !isDraining;
  const isBusy = (): boolean => !claims.isEmpty;
  const slots: readonly SlotKind[] = [
    ...Array.from({ length: concurrency }, () => 'builds' as const),
    ...Array.from({ length: fetchSlots(concurrency) }, () => 'fetches' as const),
  ];
  const idle = options.untilIdle && new IdleTime({ ms: options.untilIdle.idleMs, slots: slots.length, isBusy });

  /** If files of builds are retained here, the server may prefer this runner for jobs that begin with them. */
  const keeping = (): Pick<Wish, 'location'> => {
    const { kept } = deps;
    return kept && !kept.isEmpty() ? { location: kept.location } : {};
  };

  const tell = (report: FinishReport) =>
    untilAnswered(
      signal,
      async () => server.answered(await link.finish(report, signal)),
      unlessBroken(options.finishTries ?? finishTries),
    );

  /** If the server fails at an outcome repeatedly, reports the job as lost, so that it is retried. */
  const finish = async (report: FinishReport): Promise<void> => {
    try {
      await tell(report);
    } catch (error) {
      if (!(error instanceof BrokenServerError)) throw error;
      await tell({ ...report, outcome: { kind: 'lost', message: error.message } });
    }
  };

  const performNext = async (order: Order): Promise<void> => {
    const work = claims.hold(order.claim);
    idle?.restart();
    const before = keeping();
    try {
      const report = await perform(order, { link, deps, spool, work, ending: signal });
      if (!report) return;
      // The other free slots report the location too, before the server assigns the next jobs.
      if (!options.once && before.location !== keeping().location) await askAnew();
      if (shortLife && !isGood(report.outcome)) await pause(endingMs, undefined, { signal });
      await finish(report);
    } catch (error) {
      if (!signal.aborted && work.signal.reason !== claimLost) log(`job abandoned: ${messageOf(error)}`);
    } finally {
      claims.release(order.claim);
      deps.outbox.release(order.claim);
      idle?.restart();
    }
  };

  /** All free slots request an order again, with the runner's current state. */
  const askAnew = async (): Promise<void> => {
    if (wished.size > 0) await link.leave({ claims: [...wished] }, signal).catch(() => {});
  };

  /** The first order within `idleMs`. Does not abort the call then: the server may already have sent an order. */
  const onlyOrder = async (idleMs: number, wish: Omit<Wish, 'claim'> = {}): Promise<Order | undefined> => {
    const claim = randomName();
    const deadline = performance.now() + idleMs;
    const givingUp = new AbortController();
    const timer = setTimeout(() => givingUp.abort(new Error('no server answered in time')), idleMs + awayMs);
    const wanted = AbortSignal.any([signal, givingUp.signal]);
    wished.add(claim);
    try {
      for (;;) {
        let left = idleMs;
        const one = async (): Promise<Order | undefined> => {
          left = Math.max(0, Math.ceil(deadline - performance.now()));
          return server.answered(await link.next({ ...wish, claim, holdMs: left }, wanted));
        };
        const order = await untilAnswered(wanted, one, server.away);
        if (order || left === 0 || isDraining) return order;
      }
    } finally {
      clearTimeout(timer);
      wished.delete(claim);
    }
  };

  const doOne = async (idleMs: number): Promise<void> => {
    const order = await onlyOrder(idleMs);
    if (order) await performNext(order);
    await packNext();
  };

  /** Packs files for other suites, because they are deleted with the runner. Returns whether there was an order. */
  const packNext = async (): Promise<boolean> => {
    if (!deps.kept || deps.kept.forSuites().length === 0) return false;
    const order = await onlyOrder(packWithinMs, { ...keeping(), slot: 'fetches', isLeaving: true });
    if (order) await performNext(order);
    return Boolean(order);
  };

  const executor = async (slot: SlotKind): Promise<void> => {
    try {
      while (!signal.aborted && takesMore()) {
        const order = await nextOrder({ claim: randomName(), slot, ...keeping() });
        if (order) await performNext(order);
        else if (await idle?.isOver(signal)) return;
      }
    } finally {
      idle?.leave();
    }
  };

  /** A drained runner without a job does not wait for an unreachable server. */
  const nextOrder = async (wish: Wish): Promise<Order | undefined> => {
    wished.add(wish.claim);
    let wasAway = false;
    const attempt = (): Promise<Order | undefined> => {
      if (wasAway) idle?.restart();
      return link.next(idle ? { ...wish, holdMs: idle.leftMs() } : wish, signal);
    };
    try {
      return await untilAnswered(
        signal,
        async () => server.answered(await attempt()),
        (error) => {
          if (isDraining) throw stopped;
          server.away(error);
          wasAway = true;
        },
      );
    } catch (error) {
      if (error instanceof DrainedError) ending.abort(stopped); // no executor has a job
      throw error;
    } finally {
      wished.delete(wish.claim);
    }
  };

  const attending = claims
    .attend((held) => ask(() => link.extend({ claims: held }, signal)), signal)
    .catch((error: unknown) => ending.abort(error)); // after the signal, or if the server refuses this runner
  const upkeep = keepUp(link, deps, { isBusy, signal, log, everyMs: options.upkeepEveryMs });
  const polling = shortLife ? undefined : pollRepositories({ link, mirrors: deps.mirrors, signal, ask, log });
  const shells = serveShells({ link, deps, signal, log });
  const delivery = { outbox: deps.outbox, link, disk: deps.disk, signal, log };
  const delivering = deliverOutbox(delivery);
  const executors = options.once ? [doOne(options.once.idleMs)] : slots.map(executor);
  const packAll = async (): Promise<void> => {
    while (!signal.aborted && (await packNext()));
  };
  const done = (async () => {
    const results = await Promise.allSettled(executors);
    if (options.untilIdle) results.push(...(await Promise.allSettled([packAll()])));
    if (shortLife) await emptyOutbox(delivery, shortLife.emptyWithinMs ?? emptyWithinMs);
    ending.abort(stopped);
    await attending;
    await upkeep;
    await shells;
    await delivering;
    await polling;
    await deps.close();
    const failure = results.find((result) => result.status === 'rejected');
    if (failure && failure.reason !== stopped && !(failure.reason instanceof DrainedError)) throw failure.reason;
  })();
  return {
    done,
    isBusy,
    drain() {
      isDraining = true;
      idle?.restart();
      void askAnew();
    },
    async stop() {
      ending.abort(stopped);
      await done;
    },
  };
}

/** Logs a failure to reach the server once, not at every retry. */
class Contact {
  #lastError = '';
  readonly #log: (message: string) => void;

  constructor(log: (message: string) => void) {
    this.#log = log;
  }

  answered<T>(answer: T): T {
    this.#lastError = '';
    return answer;
  }

  readonly away = (error: unknown): void => {
    if (messageOf(error) !== this.#lastError) this.#log(`server unreachable, retrying: ${messageOf(error)}`);
    this.#lastError = messageOf(error);
  };
}
