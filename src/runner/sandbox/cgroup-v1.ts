import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import {
  counter,
  killAll,
  makeGroup,
  readPids,
  removeGroup,
  write,
  writeIfThere,
  type Cgroup,
  type CgroupTree,
  type GroupMount,
} from './cgroup-files.ts';

/** Version 1: one hierarchy per controller, and a directory in each. */
const neededControllers = ['memory', 'pids', 'cpu'] as const;
type Controller = (typeof neededControllers)[number];

export async function findVersion1(
  mounts: readonly GroupMount[],
  own: ReadonlyMap<string, string>,
): Promise<CgroupTree | null> {
  const parents = {} as Record<Controller, string>;
  for (const controller of neededControllers) {
    const mount = mounts.find(({ version, controllers }) => version === 1 && controllers.includes(controller));
    if (!mount) return null;
    // Below the runner's own group, so that its limits also apply to builds. In a container that path is the host's and
    // may not exist here; then the mount itself is the runner's group.
    const below = join(mount.at, own.get(controller) ?? '/');
    const parent = (await writable(below)) ? below : mount.at;
    if (!(await writable(parent))) return null;
    parents[controller] = parent;
  }
  const directories = (name: string): Record<Controller, string> => ({
    memory: join(parents.memory, name),
    pids: join(parents.pids, name),
    cpu: join(parents.cpu, name),
  });
  const make = (name: string): Record<Controller, string> => {
    const made = directories(name);
    for (const directory of Object.values(made)) makeGroup(directory);
    return made;
  };
  return {
    description: `limits by cgroup v1 under ${parents.memory}`,
    paths: (name) => Object.values(directories(name)),
    open: async (name) => {
      make(name);
      return (run) => group(make(join(name, run)));
    },
  };
}

function group({ memory, pids, cpu }: Record<Controller, string>): Cgroup {
  return {
    limit: (limits) => {
      // The limit on memory with swap must never be below the memory limit, so it is lifted first and lowered last.
      writeIfThere(memory, 'memory.memsw.limit_in_bytes', -1);
      write(memory, 'memory.limit_in_bytes', limits.memoryBytes);
      writeIfThere(memory, 'memory.memsw.limit_in_bytes', limits.memoryBytes);
      write(pids, 'pids.max', limits.processes);
    },
    entrances: [memory, pids, cpu].map((directory) => join(directory, 'cgroup.procs')),
    add: (pid) => {
      for (const directory of [memory, pids, cpu]) write(directory, 'cgroup.procs', pid);
    },
    pids: () => readPids(pids),
    outOfMemoryKills: () => counter(memory, 'memory.oom_control', 'oom_kill'),
    empty: () => killAll(pids),
    remove: async () => {
      for (const directory of [memory, pids, cpu]) await removeGroup(directory);
    },
  };
}

export function writable(directory: string): Promise<boolean> {
  return access(join(directory, 'cgroup.procs'), constants.W_OK)
    .then(() => access(directory, constants.W_OK))
    .then(
      () => true,
      () => false,
    );
}
