import { readFileSync } from 'node:fs';

/**
 * The processor's time of this process, and of those that it started and that have ended, in hundredths of a second. What
 * the run's PostgreSQL did is not in it.
 */
export function processorTime(): number {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // the name before it may have spaces
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
}
