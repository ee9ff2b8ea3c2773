/** When a repository that is polled is looked at again. */

/** So often it is tried after the usual time before that becomes longer: a key is installed after a project is made. */
const usualTries = 3;
const longestWait = 15 * 60 * 1000;
/** Looks that began together do not stay together. */
const jitter = 0.1;

export function waitAfter(failures: number, intervalMs: number): number {
  const longer = intervalMs * 2 ** Math.min(20, Math.max(0, failures - usualTries));
  return Math.min(longer, Math.max(intervalMs, longestWait));
}

export function withJitter(waitMs: number, random = Math.random()): number {
  return Math.round(waitMs * (1 - jitter + 2 * jitter * random));
}
