import { randomInt } from 'node:crypto';
import { extentsOf, firstOwnId, hasOwnIds } from './own-ids.ts';
import { idsOfRun, type Identity } from './types.ts';

/**
 * The users of builds on this machine.
 *
 * Under a root runner, every run has a user number that no other run has had since the runner started. So the kernel's
 * limits by user (inotify instances, pages in pipes, keys) apply per run. Files on disk belong to users without
 * processes. Each run sees them as its own, through mounts that translate owners, so many runs can share a checkout.
 *
 * A run in an image has many users, so it gets a range of numbers that no other run has at the time (ranges.pl). All
 * these runs share one range on disk. Its first number is always the run's user.
 *
 * Debian and systemd use none of these numbers. With fewer numbers, or if the kernel cannot translate owners, all runs
 * share the files' user. The same applies to numbers from /etc/subuid (own-ids.ts), because only the machine's root may
 * translate owners. Files and runs then share one range. An ordinary user without other IDs runs builds as itself.
 */
export interface BuildUsers {
  /** The owner of files on disk. */
  readonly files: Identity;
  next(): NextUser;
  /** For runs with many users; undefined if runs can have only one. */
  readonly ranges: IdRanges | SharedRange | undefined;
}

/** One range for all runs and for the files on disk. Its first number is the run's user. */
export interface SharedRange {
  shared: number;
}

export interface NextUser {
  run: Identity;
  ids: { files: number; run: number } | undefined;
}

export interface IdRanges {
  files: number;
  first: number;
  count: number;
}

const fileUsers = [1_913_000_000, 65_533];
const runUsers = { first: 1_913_000_000 + idsOfRun, last: 1_999_999_999 };
const ranges = { first: 2_000_000_000, count: 2250 };
const lastUser = ranges.first + ranges.count * idsOfRun - 1;

/** Whether the range overlaps numbers that a root runner uses. */
export function hasMachineNumbers(first: number, last: number): boolean {
  return last >= (fileUsers[0] ?? 0) && first <= lastUser;
}

/** `ownId` is the first of the runner's own range, if it has one. */
export function buildUsers(ownId = firstOwnId): BuildUsers {
  if (process.getuid?.() !== 0) return sharedUser({ uid: -1, gid: -1 });
  if (hasOwnIds()) return { ...sharedUser({ uid: ownId, gid: ownId }), ranges: { shared: ownId } };
  const chosen = fileUsers.find((id) => exists(id, id));
  if (chosen === undefined)
    throw new Error(`this machine has no free user ID: none of ${fileUsers.join(', ')} exists in /proc/self/uid_map`);
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

export function sharedUser(files: Identity): BuildUsers {
  return { files, next: () => ({ run: files, ids: undefined }), ranges: undefined };
}

function exists(first: number, last: number): boolean {
  return mapped('uid_map', first, last) && mapped('gid_map', first, last);
}

function mapped(map: 'uid_map' | 'gid_map', from: number, to: number): boolean {
  return extentsOf(map).some(({ first, count }) => from >= first && to < first + count);
}

/** The owner on disk of an image's root files. Without translation of owners it depends on the run's user. */
export function rootOfImage({ files, ranges }: BuildUsers, user: Identity | undefined): Identity {
  if (!user || !ranges || !('shared' in ranges)) return files;
  return { uid: ranges.shared + user.uid, gid: ranges.shared + user.gid };
}
