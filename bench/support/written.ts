import { readdirSync, readFileSync } from 'node:fs';

/**
 * How many bytes a process, all that it has started and all that those have started have had written to a disk. What the
 * kernel copies on their behalf counts, files in memory do not.
 */
export function writtenBytes(pid: number): number {
  const parents = new Map(readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [parentOf(Number(name))] : [])));
  const isOf = (one: number): boolean => one === pid || (one > 1 && isOf(parents.get(one) ?? 0));
  return [...parents.keys()].filter(isOf).reduce((sum, one) => sum + writtenBy(one), 0);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // it has ended: what it wrote is counted with the process that has waited for it
  }
}

function parentOf(pid: number): [pid: number, parent: number] {
  return [pid, Number(/\) \S (\d+)/.exec(read(`/proc/${pid}/stat`))?.[1] ?? 0)];
}

function writtenBy(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(read(`/proc/${pid}/io`))?.[1] ?? 0);
}
