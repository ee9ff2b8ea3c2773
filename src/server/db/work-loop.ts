import type { Database } from './open.ts';

export interface WorkLoop {
  /** Runs the work now, or again after the current run. */
  wake(): void;
  close(): Promise<void>;
}

/**
 * Runs `work` at once, on every announcement, when woken, and periodically, because announcements can be lost. Only
 * one run at a time. `isAnnounced` is true if the topic was announced since the last run. `work` returns the
 * milliseconds until the next useful run, 0 for at once. The next run starts after `everyMs` at the latest.
 */
export function startWorkLoop(
  db: Pick<Database, 'listen'>,
  topic: string,
  work: (isAnnounced: boolean) => Promise<number>,
  { everyMs, onError }: { everyMs: number; onError: (error: unknown) => void },
): WorkLoop {
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> | undefined;
  let again = false;
  let isAnnounced = false;
  const closing = new AbortController();

  const workWhileWoken = async (): Promise<void> => {
    let wait = everyMs;
    while (again && !closing.signal.aborted) {
      again = false;
      const wasAnnounced = isAnnounced;
      isAnnounced = false;
      wait = await work(wasAnnounced).catch((error: unknown) => {
        onError(error);
        return everyMs;
      });
      if (wait <= 0) again = true;
    }
    working = undefined;
    if (!closing.signal.aborted) timer = setTimeout(wake, Math.min(wait, everyMs));
  };
  const wake = (): void => {
    again = true;
    if (working || closing.signal.aborted) return;
    clearTimeout(timer);
    working = workWhileWoken();
  };
  const stopListening = db.listen((heard) => {
    if (heard !== topic) return;
    isAnnounced = true;
    wake();
  }, wake);
  wake();
  return {
    wake,
    async close() {
      closing.abort();
      stopListening();
      clearTimeout(timer);
      await working;
    },
  };
}
