import { readdirSync, readFileSync } from 'node:fs';

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];

/**
 * Descriptors above `last` that this process inherited and did not ask for. Node does not pass its own descriptors to
 * its children, but it would pass these, and a child could use files or sockets that are not meant for it.
 */
function strayDescriptors(last: number): number[] {
  const closeOnExec = 0o2000000;
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => {
      const info = fd > last ? (attempt(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? '') : '';
      const flags = /^flags:\s+(\d+)/m.exec(info)?.[1];
      return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
    });
}

/** The command, started without inherited descriptors; `last` is the highest descriptor that it is given on purpose. */
export function withoutStrays(command: Command, last: number): Command {
  const strays = strayDescriptors(last);
  if (strays.length === 0) return command;
  return ['perl', '-MPOSIX', '-e', 'POSIX::close($_) for split /,/, shift; exec @ARGV', strays.join(','), ...command];
}

/** How many files this process may have open. */
export function mostOpenFiles(): number {
  const [, files = '1024'] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return Number(files);
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined; // the descriptor that read the list is closed by now
  }
}
