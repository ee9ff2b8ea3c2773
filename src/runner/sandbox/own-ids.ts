import { readFileSync } from 'node:fs';
import { idsOfRun } from './types.ts';

/**
 * The user IDs of a runner that an ordinary user started, and to which /etc/subuid gave some (cli/subordinate-ids.ts), or that
 * root of a container started (cli/own-namespace.ts). Such a runner is root of a user namespace, in which its user is 0 and the others follow. It can give files to all of them, and run
 * as any of them; what it cannot do is all that needs power over the machine's own namespaces.
 */
export const firstOwnId = 1;

/** Whether this process is such a root. A container that an ordinary user started without another user looks the same. */
export function hasOwnIds(): boolean {
  return process.getuid?.() === 0 && ['uid_map', 'gid_map'].every((map) => isOwn(extentsOf(map)));
}

/** Whether this process is root of the machine, or of a container that has namespaces of its own. */
export function isRoot(): boolean {
  return process.getuid?.() === 0 && !hasOwnIds();
}

export interface Extent {
  first: number;
  /** What the first one is outside. */
  outside: number;
  count: number;
}

export function extentsOf(map: string): Extent[] {
  return readFileSync(`/proc/self/${map}`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .map(([first = 0, outside = 0, count = 0]) => ({ first, outside, count }));
}

function isOwn([user, others, ...more]: readonly Extent[]): boolean {
  if (user?.first !== 0 || user.count !== 1 || more.length > 0) return false;
  return others?.first === firstOwnId && others.count >= idsOfRun;
}
