export interface RepeatedLook {
  /** Looks now, or once more if a look is under way. */
  now(): void;
  /** Ends the looks; resolves when the last one is over. */
  close(): Promise<void>;
}

/**
 * Looks for work when it is told to, and also after a while, because that call may have been lost. One look runs at a
 * time. A look returns the milliseconds until the next look makes sense, 0 for at once; the next look is never later
 * than `everyMs`.
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
