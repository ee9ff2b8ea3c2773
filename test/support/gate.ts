import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { signalAll } from '../../src/runner/sandbox/descendants.ts';
import { commandsWith } from './process-list.ts';
import { growingPauses } from './pauses.ts';

/** Where builds wait until a test lets them go on. */
export interface Gate {
  /** The command that waits. */
  command: string;
  /** Lets builds go on, as soon as so many wait; returns when they do. */
  open(builds?: number): Promise<void>;
}

export function createGate(): Gate {
  const seconds = randomInt(100_000, 1_000_000);
  const waiting = (): number[] => commandsWith(`sleep\0${seconds}\0`);
  return {
    command: `sleep ${seconds} || :`,
    async open(builds = 1) {
      for (const wait = growingPauses(); waiting().length < builds; await wait());
      signalAll(waiting(), 'SIGTERM');
      while (waiting().length > 0) await pause(2);
    },
  };
}
