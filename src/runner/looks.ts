import { setTimeout as pause } from 'node:timers/promises';
import { orAborted } from '../lib/or-aborted.ts';
import type { PlaceKind } from '../lib/places.ts';
import { bytes } from '../lib/bounds.ts';
import { longestLookMs, mostLooks, type Link, type LookOrder, type LookReport, type Order } from '../protocol/index.ts';
import { RefusedError, RejectedError } from './failures.ts';
import { FetchError } from './git/failures.ts';
import type { Mirrors } from './git/mirrors.ts';

/** Polls repositories beside the executors, without occupying one of them. */
export interface LookingParts {
  link: Pick<Link, 'next' | 'nextOrLooks' | 'looks' | 'looked'>;
  mirrors: Pick<Mirrors, 'listRefs'>;
  /** Repeats a call until the server answers. */
  ask: <T>(call: () => Promise<T>) => Promise<T>;
  signal: AbortSignal;
  log: (message: string) => void;
}

/**
 * Polls that are due within this time are requested and reported together: a poll is short, and a call for each would
 * cost more.
 */
const gatherMs = 500;
/** A server that does not know polls may be upgraded later. */
const askAgainMs = 60_000;
/** A connection is kept if the next poll comes within this time. */
const longestKeptMs = 5 * 60 * 1000;

/** Looks at repositories until the signal. */
export interface Looking {
  /**
   * The next order by this request, which asks for looks as well, unless another one does: then the server need not hold
   * a request for looks beside it.
   */
  askBeside(claim: string, place: PlaceKind | undefined): Promise<Order | undefined>;
  /** Resolves when the last look is over. */
  done: Promise<void>;
}

export function lookAtRepositories(parts: LookingParts): Looking {
  const { link, ask, signal, log } = parts;
  const underWay = new Set<Promise<void>>();
  const seen = new Gathered<LookReport>();
  const beside = new Beside();

  const begin = (orders: readonly LookOrder[]): void => {
    for (const order of orders) {
      const work = look(parts, order).then((report) => report && seen.add(report));
      underWay.add(work);
      void work.finally(() => underWay.delete(work));
    }
  };
  const askBeside: Looking['askBeside'] = async (claim, place) => {
    const room = mostLooks - underWay.size;
    if (room === 0 || !beside.begin()) return link.next(claim, signal, undefined, place);
    // Until they are gathered, or known by a server that is older, looks are asked for by a request of their own.
    let pauseMs = 0;
    try {
      const { order, looks } = await link.nextOrLooks({ claim, room, place }, signal);
      pauseMs = looks === undefined ? askAgainMs : looks.length > 0 ? gatherMs : 0;
      begin(looks ?? []);
      return order ?? undefined;
    } finally {
      beside.end(pauseMs);
    }
  };
  const taking = async (): Promise<void> => {
    while (!signal.aborted) {
      await beside.over(signal);
      const room = mostLooks - underWay.size;
      begin(room === 0 ? [] : await ask(() => link.looks(room, signal)));
      await pause(gatherMs, undefined, { signal });
    }
  };
  const telling = async (): Promise<void> => {
    for (;;) {
      await seen.any(signal);
      await pause(gatherMs, undefined, { signal });
      for (const reports of batches(seen.take())) await ask(() => link.looked(reports, signal));
    }
  };
  const done = (async () => {
    await Promise.all([taking, telling].map((work) => untilEnd(work, { signal, log })));
    await Promise.all(underWay);
  })();
  return { askBeside, done };
}

/** Whether a request for an order asks for looks at the moment. */
class Beside {
  #isUnderWay = false;
  #notBefore = 0;
  #over = Promise.withResolvers<void>();

  begin(): boolean {
    if (this.#isUnderWay || performance.now() < this.#notBefore) return false;
    this.#isUnderWay = true;
    this.#over = Promise.withResolvers<void>();
    return true;
  }

  end(pauseMs: number): void {
    this.#isUnderWay = false;
    this.#notBefore = performance.now() + pauseMs;
    this.#over.resolve();
  }

  /** Resolves when none does, and none begins at once. */
  async over(signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(1, undefined, { signal });
      if (!this.#isUnderWay) return;
      await orAborted(this.#over.promise, signal);
    }
  }
}

/** A call that the server rejects means another version: polling continues when the server has changed. */
async function untilEnd(
  work: () => Promise<void>,
  { signal, log }: Pick<LookingParts, 'signal' | 'log'>,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await work();
    } catch (error) {
      if (signal.aborted || error instanceof RefusedError) return; // the executors report it
      if (!(error instanceof RejectedError)) log(`polling repositories failed: ${String(error)}`);
      await pause(askAgainMs, undefined, { signal }).catch(() => {});
    }
  }
}

async function look({ mirrors, signal }: LookingParts, order: LookOrder): Promise<LookReport | undefined> {
  const { source, claim, digest, againAfterMs } = order;
  const about = { projectId: source.projectId, claim };
  // A busy runner comes late. If it had to connect again for that, it would be even busier.
  const keepMs = againAfterMs <= longestKeptMs ? 3 * againAfterMs : 0;
  try {
    const { listing } = await mirrors.listRefs({ ...source, digest, signal, timeoutMs: longestLookMs, keepMs });
    return { ...about, seen: listing === undefined ? { unchanged: true } : { listing } };
  } catch (error) {
    if (signal.aborted) return undefined;
    if (error instanceof FetchError) return { ...about, seen: { failed: error.kind, message: error.message } };
    const message = `The runner could not do its part: ${error instanceof Error ? error.message : String(error)}`;
    return { ...about, seen: { failed: 'lost', message } };
  }
}

/** Items that arrive one by one and are taken together. */
class Gathered<T> {
  #all: T[] = [];
  #came = Promise.withResolvers<void>();

  add(one: T): void {
    this.#all.push(one);
    this.#came.resolve();
  }

  /** Resolves when there is an item; rejects when the signal is aborted first. */
  any(signal: AbortSignal): Promise<void> {
    return orAborted(this.#came.promise, signal);
  }

  take(): T[] {
    const all = this.#all;
    this.#all = [];
    this.#came = Promise.withResolvers<void>();
    return all;
  }
}

function* batches(reports: LookReport[]): Generator<LookReport[]> {
  let batch: LookReport[] = [];
  let size = 0;
  for (const report of reports) {
    const length = 'listing' in report.seen ? Buffer.byteLength(report.seen.listing) : 0;
    if (batch.length > 0 && size + length > bytes.refListing) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(report);
    size += length;
  }
  if (batch.length > 0) yield batch;
}
