export interface Repeating {
  /** Resolves when the current run has ended. */
  stop(): Promise<void>;
}

/** Repeats work with a pause, one run at a time. */
export function repeatedly(
  everyMs: number,
  work: () => Promise<unknown>,
  onTrouble: (error: unknown) => void,
): Repeating {
  let working: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    working ??= work()
      .catch(onTrouble)
      .finally(() => (working = undefined));
  }, everyMs);
  return {
    async stop() {
      clearInterval(timer);
      await working;
    },
  };
}
