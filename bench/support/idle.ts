import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Waits until a process has used little processor time for some seconds. Background work begins within that time. */
export async function untilIdle(pid: number, seconds = 3): Promise<void> {
  for (let used = ticksOf(pid); ;) {
    await pause(seconds * 1000);
    const now = ticksOf(pid);
    if (now - used < 10 * seconds) return; // a tick is a hundredth of a second
    used = now;
  }
}

function ticksOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}
