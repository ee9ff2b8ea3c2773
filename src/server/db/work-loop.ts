import type { Database } from './open.ts';

export interface WorkLoop {
  /** Runs the work now, or once more if it is running. */
  wake(): void;
  /** Ends the loop; resolves when the last run is over. */
  close(): Promise<void>;
}

/**
 * Runs `work` at once, on every announcement of a topic and whenever it is woken, and also after a while, because an
 * announcement may have been lost. One run at a time, which is told whether something was announced since the last one. A
 * run returns the milliseconds until the next one makes sense, 0 for at once; the next one is never later than `everyMs`.
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
