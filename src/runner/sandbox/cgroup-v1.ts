import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import {
  counter,
  figure,
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
import { groupMeter } from './cgroup-meter.ts';

/** Version 1: one hierarchy per controller, and a directory in each. */
const neededControllers = ['memory', 'pids', 'cpu'] as const;
/** Only measures, often in the hierarchy of `cpu`. */
const controllers = [...neededControllers, 'cpuacct'] as const;
type Directories = Record<(typeof neededControllers)[number], string> & { cpuacct?: string };

export async function findVersion1(
  mounts: readonly GroupMount[],
  own: ReadonlyMap<string, string>,
): Promise<CgroupTree | null> {
  const parents: Partial<Directories> = {};
  for (const controller of controllers) {
    const mount = mounts.find((one) => one.version === 1 && one.controllers.includes(controller));
    if (!mount) continue;
    // Below the runner's own group, so that its limits also apply to builds. In a container that path is the host's and
    // may not exist here; then the mount itself is the runner's group.
    const below = join(mount.at, own.get(controller) ?? '/');
    const parent = (await writable(below)) ? below : mount.at;
    if (await writable(parent)) parents[controller] = parent;
  }
  if (!hasNeeded(parents)) return null;
  const directories = (name: string): Directories =>
    Object.fromEntries(Object.entries(parents).map(([of, parent]) => [of, join(parent, name)])) as Directories;
  const make = (name: string): Directories => {
    const made = directories(name);
    for (const directory of Object.values(made)) makeGroup(directory);
    return made;
  };
  return {
    description: `limits by cgroup v1 under ${parents.memory}`,
    paths: (name) => [...new Set(Object.values(directories(name)))],
    open: async (name) => {
      make(name);
      return (run) => group(make(join(name, run)));
    },
  };
}

function hasNeeded(parents: Partial<Directories>): parents is Directories {
  return neededControllers.every((controller) => parents[controller] !== undefined);
}

function group(directories: Directories): Cgroup {
  const { memory, pids, cpuacct } = directories;
  const all = [...new Set(Object.values(directories))];
  return {
    ...groupMeter({
      cpuMs: () => (cpuacct === undefined ? undefined : (figure(cpuacct, 'cpuacct.usage') ?? 0) / 1e6),
      peak: () => figure(memory, 'memory.max_usage_in_bytes'),
      restart: () => writeIfThere(memory, 'memory.max_usage_in_bytes', 0),
    }),
    limit: (limits) => {
      // The limit on memory with swap must never be below the memory limit, so it is lifted first and lowered last.
      writeIfThere(memory, 'memory.memsw.limit_in_bytes', -1);
      write(memory, 'memory.limit_in_bytes', limits.memoryBytes);
      writeIfThere(memory, 'memory.memsw.limit_in_bytes', limits.memoryBytes);
      write(pids, 'pids.max', limits.processes);
    },
    entrances: all.map((directory) => join(directory, 'cgroup.procs')),
    add: (pid) => {
      for (const directory of all) write(directory, 'cgroup.procs', pid);
    },
    pids: () => readPids(pids),
    outOfMemoryKills: () => counter(memory, 'memory.oom_control', 'oom_kill'),
    empty: () => killAll(pids),
    remove: async () => {
      for (const directory of all) await removeGroup(directory);
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
