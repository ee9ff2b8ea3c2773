import { setTimeout as pause } from 'node:timers/promises';
import type { Subscriptions } from '../db/subscriptions.ts';
import { whereAvailable } from '../db/unavailable.ts';
import { lineIndex, type LineStorage } from './line-index.ts';
import { logTopic } from './logs.ts';
import { readAgainMs } from './tail.ts';

export interface Growth {
  total: number;
  size: number;
  complete: boolean;
}

/** Pause between two reports on a log: readers need no report for every line. */
const breathMs = 100;

export async function* growthOf(
  parts: LineStorage & { subscriptions: Subscriptions },
  id: bigint,
  signal: AbortSignal,
): AsyncGenerator<Growth> {
  const readGrowth = async (): Promise<Growth> => {
    const index = await lineIndex(parts, id);
    if (!index) return { total: 0, size: 0, complete: true };
    return { total: index.total, size: Number(index.log.size), complete: index.log.complete === 1 };
  };
  let last: Growth | undefined;
  using watch = parts.subscriptions.watch(logTopic(id));
  while (!signal.aborted) {
    let now: Growth | undefined;
    await whereAvailable(async () => {
      now = await readGrowth();
    });
    if (now && (now.size !== last?.size || now.complete !== last.complete)) {
      yield now;
      last = now;
      if (now.complete) return;
      await pause(breathMs, undefined, { signal }).catch(() => {});
    } else {
      await watch.changed(readAgainMs, signal);
    }
  }
}
