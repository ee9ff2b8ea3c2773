export interface WorkLoop {
  /** Looks now, or once more if a look is under way. */
  wake(): void;
  /** Ends the looks; resolves when the last one is over. */
  close(): Promise<void>;
}

/**
 * Looks for work when it is told to, and also after a while, because that call may have been lost. One look runs at a
 * time. A look returns the milliseconds until the next look makes sense, 0 for at once; the next look is never later
 * than `everyMs`.
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
