import { readFileSync } from 'node:fs';
import { findVersion1 } from './cgroup-v1.ts';
import { findVersion2 } from './cgroup-v2.ts';
import type { Limits } from './types.ts';

/**
 * Limits for a whole tree of processes, through the kernel's control group files.
 *
 * Every run has its own group, below one group of the runner, by which the sweep finds them.
 */
export interface CgroupTree {
  /** Logged once for the operator. */
  description: string;
  /** The directories of the group of that name, known before they are made. */
  paths(name: string): string[];
  /** Makes that group; the result makes groups for runs inside it. */
  open(name: string): Promise<(run: string) => Cgroup>;
}

export interface Cgroup {
  limit(limits: Limits): void;
  /** A process that writes 0 to these files enters the group. */
  readonly entrances: readonly string[];
  /** Moves a process in; its later children start in the group. */
  add(pid: number): void;
  pids(): number[];
  /** How many processes the kernel has killed here because of the memory limit. */
  outOfMemoryKills(): number;
  /** Kills all processes and waits until none is left. */
  empty(): Promise<void>;
  remove(): Promise<void>;
}

/** Null where this user may not make groups. */
export async function findCgroups(): Promise<CgroupTree | null> {
  const own = ownGroups();
  const mounts = groupMounts();
  return (await findVersion2(mounts, own)) ?? (await findVersion1(mounts, own));
}

export interface GroupMount {
  at: string;
  version: 1 | 2;
  controllers: string[];
}

function groupMounts(): GroupMount[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .flatMap((line): GroupMount[] => {
      const [before = '', after = ''] = line.split(' - ');
      const at = before.split(' ')[4] ?? '';
      const [type, , options = ''] = after.split(' ');
      if (type === 'cgroup2') return [{ at, version: 2, controllers: [] }];
      return type === 'cgroup' ? [{ at, version: 1, controllers: options.split(',') }] : [];
    });
}

/** The groups of this process: by controller for version 1, under the empty name for version 2. */
function ownGroups(): Map<string, string> {
  const groups = new Map<string, string>();
  for (const line of readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')) {
    const [, controllers = '', ...path] = line.split(':');
    for (const controller of controllers.split(',')) groups.set(controller, path.join(':'));
  }
  return groups;
}
