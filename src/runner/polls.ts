import { setTimeout as pause } from 'node:timers/promises';
import { messageOf } from '../shared/lib/error-code.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import { bytes } from '../shared/domain/bounds.ts';
import { longestPollMs, mostPolls, type Link, type PollOrder, type PollReport } from '../shared/protocol/index.ts';
import { isFinal } from './retry.ts';
import { FetchError } from './git/failures.ts';
import type { Mirrors } from './git/mirrors.ts';

export interface PollingParts {
  link: Pick<Link, 'polls' | 'polled'>;
  mirrors: Pick<Mirrors, 'listRefs'>;
  /** Repeats a call until the server answers. */
  ask: <T>(call: () => Promise<T>) => Promise<T>;
  signal: AbortSignal;
  log: (message: string) => void;
}

/** Polls due within this time are requested and reported together, because a poll costs less than a call. */
const gatherMs = 500;
/** The pause after a failure. */
const askAgainMs = 60_000;
/** A repository's connection stays open if its next poll is due within this time. */
const longestKeptMs = 5 * 60 * 1000;

/** Runs until the signal, or until the server refuses this runner. Resolves when the last poll has ended. */
export async function pollRepositories(parts: PollingParts): Promise<void> {
  const { link, ask, signal, log } = parts;
  const underWay = new Set<Promise<void>>();
  const seen: PollReport[] = [];
  let hasSeen = Promise.withResolvers<void>();

  const perform = async (order: PollOrder): Promise<void> => {
    const report = await poll(parts, order);
    if (!report) return;
    seen.push(report);
    hasSeen.resolve();
  };
  const begin = (orders: readonly PollOrder[]): void => {
    for (const order of orders) {
      const work = perform(order);
      underWay.add(work);
      void work.finally(() => underWay.delete(work));
    }
  };
  const taking = async (): Promise<void> => {
    while (!signal.aborted) {
      const room = mostPolls - underWay.size;
      begin(room === 0 ? [] : await ask(() => link.polls({ room }, signal)));
      await pause(gatherMs, undefined, { signal });
    }
  };
  const telling = async (): Promise<void> => {
    for (;;) {
      await orAborted(hasSeen.promise, signal);
      await pause(gatherMs, undefined, { signal });
      hasSeen = Promise.withResolvers();
      for (const reports of batches(seen.splice(0))) await ask(() => link.polled({ reports }, signal));
    }
  };
  await Promise.all([taking, telling].map((work) => untilEnd(work, { signal, log })));
  await Promise.all(underWay);
}

/** Restarts `work` after an error. If the server refuses this runner, `work` ends, and the executors report it. */
async function untilEnd(
  work: () => Promise<void>,
  { signal, log }: Pick<PollingParts, 'signal' | 'log'>,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await work();
    } catch (error) {
      if (signal.aborted || isFinal(error)) return;
      log(`polling repositories failed: ${String(error)}`);
      await pause(askAgainMs, undefined, { signal }).catch(() => {});
    }
  }
}

async function poll({ mirrors, signal }: PollingParts, order: PollOrder): Promise<PollReport | undefined> {
  const { source, claim, digest, againAfterMs } = order;
  const about = { projectId: source.projectId, claim };
  // A busy runner polls late, so the connection stays open longer. A new connection would make it even busier.
  const keepMs = againAfterMs <= longestKeptMs ? 3 * againAfterMs : 0;
  try {
    const { listing } = await mirrors.listRefs({ ...source, digest, signal, timeoutMs: longestPollMs, keepMs });
    return { ...about, seen: listing === undefined ? { unchanged: true } : { listing } };
  } catch (error) {
    if (signal.aborted) return undefined;
    if (error instanceof FetchError) return { ...about, seen: { failed: error.kind, message: error.message } };
    const message = `The runner could not do its part: ${messageOf(error)}`;
    return { ...about, seen: { failed: 'lost', message } };
  }
}

function* batches(reports: PollReport[]): Generator<PollReport[]> {
  let batch: PollReport[] = [];
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
