import { readdirSync, readFileSync } from 'node:fs';
import { FDS } from './arguments.ts';
import type { Command } from './types.ts';

/**
 * Descriptors that this process was started with and did not ask for. Node keeps its own from its children, but
 * not these, and bubblewrap hands on what it finds: a build would hold an open door to who knows what.
 */
function strayDescriptors(): number[] {
  const CLOSE_ON_EXEC = 0o2000000;
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => {
      const info = fd > 2 ? (attempt(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? '') : '';
      const flags = /^flags:\s+(\d+)/m.exec(info)?.[1];
      return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
    });
}

/** The command, started so that it has none of them. */
export function withoutStrays(command: Command): Command {
  const between = strayDescriptors().filter((fd) => fd > FDS.status); // the lower ones are replaced by ours
  if (between.length === 0) return command;
  return ['perl', '-MPOSIX', '-e', 'POSIX::close($_) for split /,/, shift; exec @ARGV', between.join(','), ...command];
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined; // the descriptor with which the list was read is closed by now
  }
}
