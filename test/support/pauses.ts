import { setTimeout as pause } from 'node:timers/promises';

/** Much longer than anything takes on a slow and busy machine: what would wait for ever fails with a message instead. */
export const longestWait = 5 * 60_000;

/**
 * Pauses between looks at something that will come, each longer than the one before: tests that wait beside each other
 * would otherwise take the processor from what they wait for.
 */
export function growingPauses(): () => Promise<void> {
  let ms = 20;
  return async () => {
    await pause(ms);
    ms = Math.min(250, ms * 1.3);
  };
}
