/** One run at a time, with a pause. Stopping waits for the current run. */
export function repeatedly(
  everyMs: number,
  work: () => Promise<unknown>,
  onTrouble: (error: unknown) => void,
): { stop(): Promise<void> } {
  let working: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    working ??= work()
      .catch(onTrouble)
      .finally(() => (working = undefined));
  }, everyMs);
  return {
    async stop(): Promise<void> {
      clearInterval(timer);
      await working;
    },
  };
}
