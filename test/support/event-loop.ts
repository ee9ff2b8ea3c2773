import { setTimeout as pause } from 'node:timers/promises';

/**
 * The longest turn of the event loop while something is done, in milliseconds of this thread's own processor time: for
 * so long nobody else was answered. Other processes on a busy machine do not count, so a limit on it holds everywhere.
 *
 * The server of `describeService` runs in the tests' thread, and so does the client that calls it: what a test makes of
 * large texts, it makes before.
 */
export async function longestTurn<T>(work: () => Promise<T>): Promise<{ result: T; longestMs: number }> {
  const over = new AbortController();
  let longest = 0;
  const watching = (async () => {
    for (let last = processorTime(); !over.signal.aborted;) {
      await pause(1); // due in the very next turn, or the one after it
      const now = processorTime();
      longest = Math.max(longest, now - last);
      last = now;
    }
  })();
  await pause(2); // the watching has begun
  const [outcome] = await Promise.allSettled([work()]);
  over.abort();
  await watching; // what the last turn took counts too
  if (outcome.status === 'rejected') throw outcome.reason;
  return { result: outcome.value, longestMs: longest };
}

/** What this thread has worked so far, in milliseconds. */
export function processorTime(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
