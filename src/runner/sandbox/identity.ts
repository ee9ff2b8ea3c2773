import { readFileSync } from 'node:fs';
import type { Identity } from './types.ts';

/**
 * Who a build is on this machine.
 *
 * For a runner that is root, all builds share one unprivileged id. One id per build would be a further wall
 * between builds, but the files of a checkout can have only one owner, and a build must own what it finds in
 * its workspace (chmod, git's ownership check) without a copy of every file. The walls that do stand: every
 * build has its own user, process, mount and IPC namespaces, so that it cannot name, and therefore not
 * signal, trace or read, anything of another build.
 *
 * The id is in the range that neither Debian nor systemd hands out. A runner inside a container may have a
 * smaller range of ids; then it is one that Debian reserves and never assigns.
 */
const CANDIDATES = [1_913_000_000, 65_533];

export function buildIdentity(): Identity {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  if (uid !== 0) return { uid, gid };
  const chosen = CANDIDATES.find((id) => mapped('uid_map', id) && mapped('gid_map', id));
  if (chosen === undefined)
    throw new Error(
      `this machine has no user id to spare: none of ${CANDIDATES.join(', ')} exists in /proc/self/uid_map`,
    );
  return { uid: chosen, gid: chosen };
}

function mapped(file: 'uid_map' | 'gid_map', id: number): boolean {
  return readFileSync(`/proc/self/${file}`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => id >= first && id < first + count);
}
