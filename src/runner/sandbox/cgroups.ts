import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CgroupTree, GroupMount } from './cgroup-files.ts';
import { findVersion1 } from './cgroup-v1.ts';
import { findVersion2 } from './cgroup-v2.ts';

/** Null if this user may not make groups. */
export async function findCgroups(): Promise<CgroupTree | null> {
  const own = ownGroups();
  const mounts = groupMounts();
  return (await findVersion2(mounts, own)) ?? (await findVersion1(mounts, own));
}

/** Whether this user can most likely make groups. Makes none to find out. */
export function mayMakeCgroups(): boolean {
  const own = ownGroups();
  return groupMounts().some(({ at, version, controllers }) => {
    const group = version === 2 ? own.get('') : controllers.includes('memory') ? own.get('memory') : undefined;
    return group !== undefined && mayWrite(join(at, group));
  });
}

function mayWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
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

/** Keyed by controller for version 1, and by the empty name for version 2. */
function ownGroups(): Map<string, string> {
  const groups = new Map<string, string>();
  for (const line of readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')) {
    const [, controllers = '', ...path] = line.split(':');
    for (const controller of controllers.split(',')) groups.set(controller, path.join(':'));
  }
  return groups;
}
