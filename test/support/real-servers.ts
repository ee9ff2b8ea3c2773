import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * Servers that others have written, for tests that want the real one. They are programs in a folder that
 * HEADRACE_TEST_SERVERS names, or beside the project, and are not there on every machine.
 */
const { HEADRACE_TEST_SERVERS: named } = process.env;
const folder = named ?? resolve(import.meta.dirname, '..', '..', '..', 'shared', 'servers');

/** Why a server is not to be had on this machine; false where it is. In a folder that was named, all run here. */
export function whyNo(program: string, name: string): string | false {
  const path = join(folder, program);
  if (!existsSync(path)) return `there is no ${name} at ${path}`;
  return named === undefined && process.arch !== 'x64' && `${name} is there for x86-64 alone`;
}

export interface RealServer {
  /** The line of JSON that it prints when it answers. */
  told: unknown;
  kill: () => Promise<void>;
}

export async function startReal(program: string, args: string[]): Promise<RealServer> {
  // A group of its own, because the program is started by a script.
  const running = spawn(join(folder, program), args, { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  const ended = once(running, 'exit');
  const line = once(createInterface({ input: running.stdout }), 'line') as Promise<[string]>;
  const failed = ended.then(([status]) => Promise.reject(new Error(`${program} ended with ${status}`)));
  const [text] = await Promise.race([line, failed]);
  failed.catch(() => {});
  return {
    told: JSON.parse(text),
    async kill() {
      if (running.pid === undefined || running.exitCode !== null || running.signalCode !== null) return;
      process.kill(-running.pid, 'SIGKILL');
      await ended;
    },
  };
}
