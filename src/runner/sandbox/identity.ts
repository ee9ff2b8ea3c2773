import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Identity } from './types.ts';

/**
 * The users of builds on this machine.
 *
 * Under a runner that is root, every run has its own user number, which no other run has had since the runner started.
 * So everything that the kernel counts by user (inotify instances, pages in pipes, descriptors in flight, keys) is
 * counted by run. Files on disk all belong to one user, under which no process runs; each run sees them as its own,
 * through mounts that translate owners. So many runs can share a checkout, and each may change the modes of its files.
 *
 * The numbers are in a range that neither Debian nor systemd uses. A runner inside a container may have fewer; then,
 * and where the kernel cannot translate owners, all runs share the user of the files. A runner that is an ordinary user
 * has no other user: its builds are that user, in separate namespaces.
 */
export interface BuildUsers {
  /** The owner of files on disk. */
  readonly files: Identity;
  /** The user of the next run. */
  next(): RunUser;
}

export interface RunUser {
  run: Identity;
  /** How the owner of files is translated; undefined where the run has the user of the files. */
  mapped: { files: number; run: number } | undefined;
}

const fileUsers = [1_913_000_000, 65_533];
const runUsers = { first: 1_913_000_001, last: 2_147_483_646 };

export function buildUsers(): BuildUsers {
  if (process.getuid?.() !== 0) return sharedUser({ uid: -1, gid: -1 });
  const chosen = fileUsers.find((id) => exists(id, id));
  if (chosen === undefined)
    throw new Error(
      `this machine has no user id to spare: none of ${fileUsers.join(', ')} exists in /proc/self/uid_map`,
    );
  const files = { uid: chosen, gid: chosen };
  if (!exists(runUsers.first, runUsers.last)) return sharedUser(files);
  // Random, so that another runner on this machine, or the last one, most likely began elsewhere.
  let next = randomInt(runUsers.first, runUsers.last);
  return {
    files,
    next: () => {
      next = next < runUsers.last ? next + 1 : runUsers.first;
      return { run: { uid: next, gid: next }, mapped: { files: chosen, run: next } };
    },
  };
}

/** All runs have the user that owns the files. */
export function sharedUser(files: Identity): BuildUsers {
  return { files, next: () => ({ run: files, mapped: undefined }) };
}

/** Whether this process's user namespace has all of these numbers. */
function exists(first: number, last: number): boolean {
  return mapped('uid_map', first, last) && mapped('gid_map', first, last);
}

function mapped(file: 'uid_map' | 'gid_map', from: number, to: number): boolean {
  return readFileSync(`/proc/self/${file}`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => from >= first && to < first + count);
}
