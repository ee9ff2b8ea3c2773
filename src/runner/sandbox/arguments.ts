import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { BUILD_USER, PLACES, USUAL_PATH, type Job, type Network } from './types.ts';
import { BENCH } from './workbench.ts';
import type { Furnished } from './workspace.ts';

/** Descriptors that bubblewrap is started with, beside the standard ones; steps.ts has two for its script. */
export const FDS = { arguments: 3, steps: 4, status: 6 } as const;

/**
 * What bubblewrap is told about every run of these sandboxes.
 *
 * The machine's programs and libraries, and nothing else of its file system: what is not named here does not
 * exist for a build. Nested user namespaces are switched off: in one of its own a build would have every
 * capability again, and with them all of the kernel that only root should reach.
 */
export function commonArguments(network: Network): string[] {
  return [
    ['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
    network === 'none' ? ['--unshare-net'] : [],
    ['--disable-userns', '--cap-drop', 'ALL', '--die-with-parent', '--new-session', '--hostname', BUILD_USER.name],
    ['--uid', `${BUILD_USER.uid}`, '--gid', `${BUILD_USER.gid}`, '--json-status-fd', `${FDS.status}`],
    ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'].flatMap(likeOnMachine),
    ['--ro-bind', join(BENCH, 'etc'), '/etc'],
    ['--dev', '/dev', '--perms', '1777', '--tmpfs', '/dev/shm', '--remount-ro', '/dev', '--proc', '/proc'],
    ['/home', '/run', '/var'].flatMap((path) => ['--perms', '0755', '--dir', path]),
    ['--symlink', '/run', '/var/run', '--symlink', '/tmp', '/var/tmp', '--clearenv'],
  ].flat();
}

/** On merged-/usr systems most of these are links; they must be links for the build too, or paths change their meaning. */
function likeOnMachine(path: string): string[] {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return [];
  return found.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path];
}

/**
 * What it is told about one run. The script comes last but for the command itself, which is fixed when
 * bubblewrap is started: should the runner die while it writes these, what has arrived starts nothing.
 */
export function jobArguments(job: Job, furnished: Furnished): string[] {
  return [
    ['--bind', furnished.tmp, '/tmp', '--bind', furnished.home, PLACES.home],
    ['--bind', furnished.workspace, PLACES.workspace],
    furnished.mounts.flatMap(({ from, at, writable }) => [writable ? '--bind' : '--ro-bind', from, at]),
    Object.entries(environment(job)).flatMap(([name, value]) => ['--setenv', name, value]),
    ['--chdir', job.cwd ?? PLACES.workspace, '--file', `${FDS.steps}`, PLACES.steps, '--remount-ro', '/'],
  ].flat();
}

export function environment(job: Job, home: string = PLACES.home): Record<string, string> {
  const all = {
    PATH: USUAL_PATH,
    HOME: home,
    USER: BUILD_USER.name,
    LOGNAME: BUILD_USER.name,
    SHELL: '/bin/sh',
    LANG: 'C.UTF-8',
    ...job.environment,
  };
  for (const [name, value] of Object.entries(all)) {
    // The value is not repeated: it may be a secret.
    if (name === '' || /[=\0]/.test(name) || value.includes('\0'))
      throw new Error(`the variable ${JSON.stringify(name)} cannot be set`);
  }
  return all;
}
