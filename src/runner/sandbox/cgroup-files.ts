import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir, readFile, rmdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf } from '../../shared/lib/error-code.ts';
import type { GroupMeter } from './cgroup-meter.ts';
import type { Limits } from './types.ts';

/** Limits for a tree of processes. Each run has its own group below one group of the runner, which the sweep finds. */
export interface CgroupTree {
  description: string;
  /** The directories of the group `name`, known before they are made. */
  paths(name: string): string[];
  /** Makes the group `name`. The result makes groups for runs inside it. */
  open(name: string): Promise<(run: string) => Cgroup>;
}

export interface Cgroup extends GroupMeter {
  limit(limits: Limits): void;
  /** A process that writes 0 to these files enters the group. */
  readonly entrances: readonly string[];
  /** The process's later children start in the group. */
  add(pid: number): void;
  pids(): number[];
  outOfMemoryKills(): number;
  empty(): Promise<void>;
  remove(): Promise<void>;
}

export interface GroupMount {
  at: string;
  version: 1 | 2;
  controllers: string[];
}

// The operations of each run are synchronous: the kernel responds from memory, which is faster than a thread.

export function write(directory: string, file: string, value: string | number): void {
  writeFileSync(`${directory}/${file}`, String(value));
}

export function writeIfThere(directory: string, file: string, value: string | number): boolean {
  try {
    write(directory, file, value);
    return true;
  } catch (error) {
    ignore('ENOENT', 'EACCES')(error);
    return false;
  }
}

export function read(directory: string, file: string): Promise<string> {
  return readFile(`${directory}/${file}`, 'utf8');
}

function readNow(directory: string, file: string, ...missing: string[]): string {
  try {
    return readFileSync(`${directory}/${file}`, 'utf8');
  } catch (error) {
    return ignore(...missing)(error) ?? '';
  }
}

export function readPids(directory: string): number[] {
  // A group that is being emptied can return ENODEV for an instant; it has no processes then.
  return readNow(directory, 'cgroup.procs', 'ENODEV', 'ENOENT').split('\n').filter(Boolean).map(Number);
}

export function counter(directory: string, file: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(readNow(directory, file, 'ENOENT'))?.[1] ?? 0);
}

/** Undefined if the file is missing. */
export function figure(directory: string, file: string): number | undefined {
  const text = readNow(directory, file, 'ENOENT', 'ENODEV').trim();
  return text === '' ? undefined : Number(text);
}

export function makeGroup(directory: string): void {
  try {
    mkdirSync(directory);
  } catch (error) {
    ignore('EEXIST')(error);
  }
}

export async function killAll(directory: string): Promise<void> {
  for (let pause = 1; ; pause = Math.min(pause * 2, 100)) {
    const pids = readPids(directory);
    if (pids.length === 0) return;
    // Version 2 kills a whole group at once. In version 1 a process can fork between reading and killing, hence the
    // loop. It ends, because the process limit leaves a fork bomb less room with every round.
    if (!writeIfThere(directory, 'cgroup.kill', 1)) for (const pid of pids) kill(pid);
    await delay(pause);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // already ended
  }
}

export async function removeGroups(directory: string): Promise<void> {
  const entries = (await readdir(directory, { withFileTypes: true }).catch(ignore('ENOENT'))) ?? [];
  for (const entry of entries) if (entry.isDirectory()) await removeGroups(`${directory}/${entry.name}`);
  await killAll(directory);
  await removeGroup(directory);
}

export async function removeGroup(directory: string): Promise<void> {
  // A group whose last process has just died stays busy until that process is reaped.
  for (let attempt = 1; ; attempt++) {
    try {
      return await rmdir(directory);
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || attempt === 100) throw error;
      await delay(10);
    }
  }
}

export function ignore(...codes: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(codeOf(error))) throw error;
    return undefined;
  };
}
