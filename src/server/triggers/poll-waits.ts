import { backOff } from '../../shared/lib/back-off.ts';

/**
 * After more failures than this, the interval grows. A project's key is often installed some time after the project is
 * created.
 */
const usualTries = 3;
const longestWait = 15 * 60 * 1000;
/** Spreads polls that began at the same time. */
const jitter = 0.1;

export function pollWait(failures: number, intervalMs: number): number {
  return backOff(Math.max(0, failures - usualTries) + 1, intervalMs, Math.max(intervalMs, longestWait));
}

export function withJitter(waitMs: number, random = Math.random()): number {
  return Math.round(waitMs * (1 - jitter + 2 * jitter * random));
}
