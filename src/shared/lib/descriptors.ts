import { readdirSync, readFileSync } from 'node:fs';

export type Command = readonly [string, ...string[]];

/** Inherited descriptors above `last`. Node would pass them to children, for whom they are not meant. */
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

/** `last` is the highest descriptor that the command gets on purpose. */
export function withoutStrays(command: Command, last: number): Command {
  const strays = strayDescriptors(last);
  if (strays.length === 0) return command;
  return ['perl', '-MPOSIX', '-e', 'POSIX::close($_) for split /,/, shift; exec @ARGV', strays.join(','), ...command];
}

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
