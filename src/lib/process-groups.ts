import { spawn, type SpawnOptions } from 'node:child_process';
import type { Finished } from './processes.ts';

/*
 * A program with everything it starts, as one thing.
 *
 * It gets a session of its own: no terminal to prompt on, and one process group to end. It is asked to end
 * (SIGTERM, so that it can take its temporary files along) when the signal fires, and made to end shortly
 * after; and the kernel asks it to end when this process dies, even by SIGKILL.
 */

const graceMs = 2000;
const drainMs = 5000;

export interface GroupOptions extends Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'> {
  signal?: AbortSignal | undefined;
  input?: string | Uint8Array;
  /** Hears what the program says on standard error while it says it. */
  onStderr?: (chunk: Buffer) => void;
  /** Descriptors the program and its children keep open (as 3, 4, …), for instance a lock. */
  inherit?: readonly number[];
  /** Of each stream at most this much is collected: of standard output the beginning, of standard error the end. */
  maxOutput?: number;
  /** Without a word on either stream for so long, the group is ended and `SilenceError` thrown. */
  longestSilenceMs?: number | undefined;
}

export class SilenceError extends Error {
  override name = 'SilenceError';
}

export function runGroup(program: string, args: readonly string[], options: GroupOptions = {}): Promise<Finished> {
  const { signal, input, onStderr, inherit = [], maxOutput = 16 * 1024 * 1024, longestSilenceMs, ...rest } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Finished>();
  if (signal?.aborted) {
    reject(signal.reason);
    return promise;
  }
  const child = spawn('setpriv', ['--pdeathsig', 'TERM', '--', program, ...args], {
    ...rest,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', ...inherit],
  });
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error('spawn gave no pipes');
  let silence: SilenceError | undefined;
  let killing: NodeJS.Timeout | undefined;
  let draining: NodeJS.Timeout | undefined;
  const end = (): void => {
    killGroup(child.pid, 'SIGTERM');
    killing ??= setTimeout(() => killGroup(child.pid, 'SIGKILL'), graceMs);
  };
  const patience = longestSilenceMs === undefined ? undefined : setTimeout(giveUp, longestSilenceMs);
  function giveUp(): void {
    silence = new SilenceError(`${program} said nothing for ${longestSilenceMs} ms`);
    end();
  }
  signal?.addEventListener('abort', end, { once: true });
  const said = { stdout: beginningOf(maxOutput), stderr: endOf(maxOutput) };
  stdout.on('data', (chunk: Buffer) => {
    patience?.refresh();
    said.stdout.add(chunk);
  });
  stderr.on('data', (chunk: Buffer) => {
    patience?.refresh();
    said.stderr.add(chunk);
    onStderr?.(chunk);
  });
  stdin.on('error', () => {}); // a program that does not read its input is no failure of ours
  stdin.end(input);
  child.on('error', reject);
  // Somebody outside the group may have been handed our pipes (a shared ssh connection is), so that they stay
  // open when all of the group is gone. What was ended is waited for no longer; what ended by itself, a while.
  child.on('exit', () => {
    const ended = killing !== undefined;
    if (ended) killGroup(child.pid, 'SIGKILL');
    draining = setTimeout(() => [stdout, stderr].forEach((stream) => stream.destroy()), ended ? 0 : drainMs);
  });
  child.on('close', (status, endedBy) => {
    clearTimeout(patience);
    clearTimeout(killing);
    clearTimeout(draining);
    signal?.removeEventListener('abort', end);
    if (signal?.aborted) reject(signal.reason);
    else if (silence !== undefined) reject(silence);
    else resolve({ status, signal: endedBy, stdout: said.stdout.bytes(), stderr: said.stderr.bytes() });
  });
  return promise;
}

/** A group that is already gone is what was wanted. */
export function killGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

interface Kept {
  add(chunk: Buffer): void;
  bytes(): Buffer;
}

function beginningOf(limit: number): Kept {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    add: (chunk) => {
      if (size < limit) chunks.push(chunk.subarray(0, limit - size));
      size += chunk.length;
    },
    bytes: () => Buffer.concat(chunks),
  };
}

function endOf(limit: number): Kept {
  let chunks: Buffer[] = [];
  let size = 0;
  return {
    add: (chunk) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > 2 * limit) {
        chunks = [Buffer.concat(chunks).subarray(-limit)];
        size = limit;
      }
    },
    bytes: () => Buffer.concat(chunks).subarray(-limit),
  };
}
