import { randomInt } from 'node:crypto';
import { extentsOf, firstOwnId, hasOwnIds } from './own-ids.ts';
import { idsOfRun, type Identity } from './types.ts';

/**
 * The users of builds on this machine.
 *
 * Under a runner that is root, every run has its own user number, which no other run has had since the runner started.
 * So everything that the kernel counts by user (inotify instances, pages in pipes, descriptors in flight, keys) is
 * counted by run. Files on disk belong to users under which no process runs; each run sees them as its own, through mounts
 * that translate owners. So many runs can share a checkout, and each may change the modes of its files.
 *
 * A run in an image has many users, so it gets a whole range of numbers that no other run has at the time (ranges.pl). On
 * disk there is one such range for all of them. Its first number is whoever runs, in every run, with an image or without one.
 *
 * The numbers are in a range that neither Debian nor systemd uses. A runner inside a container may have fewer; then,
 * and where the kernel cannot translate owners, all runs share the user of the files. So they do where /etc/subuid gave the
 * runner its numbers (own-ids.ts): only the machine's root may translate owners. There is one range then, for files and for
 * all runs that have many users. A runner that is an ordinary user and has no other user runs its builds as that user, in
 * separate namespaces.
 */
export interface BuildUsers {
  /** The owner of files on disk. */
  readonly files: Identity;
  /** The user of the next run. */
  next(): NextUser;
  /** The ranges for runs that have many users; undefined where they can have but one. */
  readonly ranges: IdRanges | SharedRange | undefined;
}

/** One range for all runs and for the files on disk, the first of which is whoever runs. */
export interface SharedRange {
  shared: number;
}

export interface NextUser {
  run: Identity;
  /** How the owner of files is translated; undefined where the run has the user of the files. */
  ids: { files: number; run: number } | undefined;
}

export interface IdRanges {
  /** The first owner of files on disk. */
  files: number;
  first: number;
  count: number;
}

const fileUsers = [1_913_000_000, 65_533];
const runUsers = { first: 1_913_000_000 + idsOfRun, last: 1_999_999_999 };
const ranges = { first: 2_000_000_000, count: 2250 };
const lastUser = ranges.first + ranges.count * idsOfRun - 1;

/** Whether any of these is one that a runner uses which is root. */
export function hasMachineNumbers(first: number, last: number): boolean {
  return last >= (fileUsers[0] ?? 0) && first <= lastUser;
}

/** `ownId` is the first of the runner's own range, if it has one. */
export function buildUsers(ownId = firstOwnId): BuildUsers {
  if (process.getuid?.() !== 0) return sharedUser({ uid: -1, gid: -1 });
  if (hasOwnIds()) return { ...sharedUser({ uid: ownId, gid: ownId }), ranges: { shared: ownId } };
  const chosen = fileUsers.find((id) => exists(id, id));
  if (chosen === undefined)
    throw new Error(
      `this machine has no user id to spare: none of ${fileUsers.join(', ')} exists in /proc/self/uid_map`,
    );
  const files = { uid: chosen, gid: chosen };
  if (!exists(chosen, lastUser)) return sharedUser(files);
  // Random, so that another runner on this machine, or the last one, most likely began elsewhere.
  let next = randomInt(runUsers.first, runUsers.last);
  return {
    files,
    ranges: { files: chosen, ...ranges },
    next: () => {
      next = next < runUsers.last ? next + 1 : runUsers.first;
      return { run: { uid: next, gid: next }, ids: { files: chosen, run: next } };
    },
  };
}

/** All runs have the user that owns the files. */
export function sharedUser(files: Identity): BuildUsers {
  return { files, next: () => ({ run: files, ids: undefined }), ranges: undefined };
}

/** Whether this process's user namespace has all of these numbers. */
function exists(first: number, last: number): boolean {
  return mapped('uid_map', first, last) && mapped('gid_map', first, last);
}

function mapped(map: 'uid_map' | 'gid_map', from: number, to: number): boolean {
  return extentsOf(map).some(({ first, count }) => from >= first && to < first + count);
}

/**
 * Who owns the files of an image that belong to its root, on disk, in a run of this user. Where owners are translated, that is
 * the same for all; otherwise whoever runs has taken that number.
 */
export function rootOfImage({ files, ranges }: BuildUsers, user: Identity | undefined): Identity {
  if (!user || !ranges || !('shared' in ranges)) return files;
  return { uid: ranges.shared + user.uid, gid: ranges.shared + user.gid };
}
