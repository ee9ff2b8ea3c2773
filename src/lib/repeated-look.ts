export interface RepeatedLook {
  /** Looks now, or once more if a look is under way. */
  now(): void;
  /** Looks no more; resolves when the last look is over. */
  close(): Promise<void>;
}

/**
 * Looks for something to do: when it is told to, and after a while without that, because whoever should have told it may
 * not have been heard. One look at a time. A look answers after how many milliseconds the next one makes sense, 0 for at
 * once; that is never later than `everyMs`.
 */
export function repeatLook(
  look: () => Promise<number>,
  { everyMs, trouble }: { everyMs: number; trouble: (error: unknown) => void },
): RepeatedLook {
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let again = false;
  const closing = new AbortController();

  const lookWhileAsked = async (): Promise<void> => {
    let wait = everyMs;
    while (again && !closing.signal.aborted) {
      again = false;
      wait = await look().catch((error: unknown) => {
        trouble(error);
        return everyMs;
      });
      if (wait <= 0) again = true;
    }
    looking = undefined;
    if (!closing.signal.aborted) timer = setTimeout(now, Math.min(wait, everyMs));
  };
  const now = (): void => {
    again = true;
    if (looking || closing.signal.aborted) return;
    clearTimeout(timer);
    looking = lookWhileAsked();
  };
  return {
    now,
    async close() {
      closing.abort();
      clearTimeout(timer);
      await looking;
    },
  };
}
