/** Then the interval grows. A project's key is often installed some time after the project is made. */
const usualTries = 3;
const longestWait = 15 * 60 * 1000;
/** Spreads polls that began at the same time. */
const jitter = 0.1;

export function waitAfter(failures: number, intervalMs: number): number {
  const longer = intervalMs * 2 ** Math.min(20, Math.max(0, failures - usualTries));
  return Math.min(longer, Math.max(intervalMs, longestWait));
}

export function withJitter(waitMs: number, random = Math.random()): number {
  return Math.round(waitMs * (1 - jitter + 2 * jitter * random));
}
