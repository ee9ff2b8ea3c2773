export interface WorkLoop {
  /** Runs the work now, or once more if it is running. */
  wake(): void;
  /** Ends the loop; resolves when the last run is over. */
  close(): Promise<void>;
}

/**
 * Runs `work` when it is woken, and also after a while, because a wake-up may have been lost. One run at a time. A run
 * returns the milliseconds until the next one makes sense, 0 for at once; the next one is never later than `everyMs`.
 */
export function startWorkLoop(
  work: () => Promise<number>,
  { everyMs, onError }: { everyMs: number; onError: (error: unknown) => void },
): WorkLoop {
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> | undefined;
  let again = false;
  const closing = new AbortController();

  const workWhileWoken = async (): Promise<void> => {
    let wait = everyMs;
    while (again && !closing.signal.aborted) {
      again = false;
      wait = await work().catch((error: unknown) => {
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
  return {
    wake,
    async close() {
      closing.abort();
      clearTimeout(timer);
      await working;
    },
  };
}
