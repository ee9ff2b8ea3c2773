import { readdirSync, readFileSync } from 'node:fs';

/**
 * The bytes that a process and all its descendants have written to a disk. Bytes that the kernel copies for them count.
 * Files in memory do not.
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
    return ''; // it has ended: its bytes count for the process that waited for it
  }
}

function parentOf(pid: number): [pid: number, parent: number] {
  return [pid, Number(/\) \S (\d+)/.exec(read(`/proc/${pid}/stat`))?.[1] ?? 0)];
}

function writtenBy(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(read(`/proc/${pid}/io`))?.[1] ?? 0);
}
