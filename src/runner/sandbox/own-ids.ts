import { readFileSync } from 'node:fs';
import { idsOfRun } from './types.ts';

/**
 * The user IDs of a runner that is root of a user namespace, from /etc/subuid (cli/subordinate-ids.ts) or a container's
 * root (cli/own-namespace.ts). Its own user is 0, and the other IDs follow. It can run processes and own files as each
 * of them, but has no power over the machine's own namespaces.
 */
export const firstOwnId = 1;

/** Also true in a container that an ordinary user started without other users, because it looks the same. */
export function hasOwnIds(): boolean {
  return process.getuid?.() === 0 && ['uid_map', 'gid_map'].every((map) => isOwn(extentsOf(map)));
}

/** Whether this process is root of the machine, or of a container with its own namespaces. */
export function isRoot(): boolean {
  return process.getuid?.() === 0 && !hasOwnIds();
}

export interface Extent {
  first: number;
  /** The ID outside that `first` maps to. */
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
