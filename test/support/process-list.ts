import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** The processes with this text in their command line. Arguments are separated by NUL. */
export function commandsWith(text: string): number[] {
  const commandOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    } catch {
      return ''; // it ended in this moment
    }
  };
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => commandOf(pid).includes(text)).map(Number);
}

/** Returns when a file or folder exists. Checking is cheaper than watching a whole tree. */
export async function untilCreated(folder: string, name: string): Promise<void> {
  while (!existsSync(join(folder, name))) await pause(2, undefined, { ref: false });
}
