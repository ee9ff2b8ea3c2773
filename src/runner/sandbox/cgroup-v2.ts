import { dirname, join, resolve } from 'node:path';
import {
  counter,
  killAll,
  makeGroup,
  read,
  readPids,
  removeGroup,
  write,
  writeIfThere,
  type Cgroup,
  type CgroupTree,
  type GroupMount,
} from './cgroup-files.ts';
import { groupMeter, peakFile } from './cgroup-meter.ts';
import { writable } from './cgroup-v1.ts';
import { isRoot } from './own-ids.ts';

/**
 * The parent is the nearest ancestor that this user may write to and that can delegate. A service with systemd's
 * `Delegate=yes` may write only to its own group, so its processes move one level down.
 */
const needed = ['memory', 'pids'];
const makeRoom = 'headrace-runner';

export async function findVersion2(
  mounts: readonly GroupMount[],
  own: ReadonlyMap<string, string>,
): Promise<CgroupTree | null> {
  const mount = mounts.find(({ version }) => version === 2);
  if (!mount) return null;
  const parent = await findParent(mount.at, resolve(join(mount.at, own.get('') ?? '/')));
  if (parent === null) return null;
  const cpu = (await read(parent, 'cgroup.subtree_control')).includes('cpu');
  return {
    description: `limits by cgroup v2 under ${parent}${cpu ? '' : ', without the processor (that controller is not available here)'}`,
    paths: (name) => [join(parent, name)],
    open: async (name) => {
      const all = join(parent, name);
      makeGroup(all);
      if (!(await handsDown(all))) throw new Error(`${all} cannot limit the groups of runs`);
      return (run) => {
        const directory = join(all, run);
        makeGroup(directory);
        return group(directory);
      };
    },
  };
}

async function findParent(top: string, own: string): Promise<string | null> {
  for (let directory = own; directory.startsWith(top); directory = dirname(directory)) {
    if ((await writable(directory)) && (await handsDown(directory))) return directory;
  }
  // Only an ordinary user gets here. Root would have found an ancestor, and must never move other users' processes,
  // which the kernel would allow.
  const delegated = !isRoot() && own !== top && (await writable(own)) && (await offers(own));
  if (!delegated) return null;
  const room = join(own, makeRoom);
  makeGroup(room);
  for (const pid of readPids(own)) attempt(() => write(room, 'cgroup.procs', pid)); // a process may just have ended
  return (await handsDown(own)) ? own : null;
}

function attempt(work: () => void): void {
  try {
    work();
  } catch {
    // callers check the outcome instead
  }
}

async function offers(directory: string): Promise<boolean> {
  const available = (await read(directory, 'cgroup.controllers')).trim().split(' ');
  return needed.every((controller) => available.includes(controller));
}

async function handsDown(directory: string): Promise<boolean> {
  if (!(await offers(directory))) return false;
  for (const controller of [...needed, 'cpu']) {
    // The kernel refuses it if the group has processes. Only the file's content afterwards counts.
    attempt(() => write(directory, 'cgroup.subtree_control', `+${controller}`));
  }
  const handed = (await read(directory, 'cgroup.subtree_control')).trim().split(' ');
  return needed.every((controller) => handed.includes(controller));
}

function group(directory: string): Cgroup {
  const { close, ...peaks } = peakFile(join(directory, 'memory.peak'));
  return {
    ...groupMeter({ ...peaks, cpuMs: () => counter(directory, 'cpu.stat', 'usage_usec') / 1000 }),
    limit: (limits) => {
      write(directory, 'memory.max', limits.memoryBytes);
      writeIfThere(directory, 'memory.swap.max', 0);
      write(directory, 'pids.max', limits.processes);
    },
    entrances: [join(directory, 'cgroup.procs')],
    add: (pid) => write(directory, 'cgroup.procs', pid),
    pids: () => readPids(directory),
    outOfMemoryKills: () => counter(directory, 'memory.events', 'oom_kill'),
    empty: () => killAll(directory),
    remove: () => {
      close();
      return removeGroup(directory);
    },
  };
}
