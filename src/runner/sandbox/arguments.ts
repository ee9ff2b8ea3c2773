import { join } from 'node:path';
import { ofTheMachine } from './sandbox-root.ts';
import { BUILD_USER, PLACES, USUAL_PATH, type Job, type Network } from './types.ts';
import { HELPER_DIRECTORY } from './mount-helper.ts';

/** The descriptor on which bubblewrap tells of the sandbox's first process; steps.ts has the others. */
export const STATUS_FD = 6;
/** The descriptor from which it reads the filter for system calls. */
export const SECCOMP_FD = 8;

const FILTERS: { [architecture in NodeJS.Architecture]?: string } = { x64: 'x86_64.bpf', arm64: 'aarch64.bpf' };

/** The filter for this machine; docs/decisions/0027 tells of it. */
export function seccompFilter(): string {
  const name = FILTERS[process.arch];
  if (name === undefined) throw new Error(`there is no filter for the system calls of ${process.arch}`);
  return join(import.meta.dirname, 'seccomp', name);
}

/**
 * What bubblewrap is told about every sandbox on this machine, but for its root.
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
    ['--uid', `${BUILD_USER.uid}`, '--gid', `${BUILD_USER.gid}`, '--json-status-fd', `${STATUS_FD}`, '--clearenv'],
    ['--seccomp', `${SECCOMP_FD}`],
    ofTheMachine().directories.flatMap((name) => ['--ro-bind', `/${name}`, `/${name}`]),
    ['--ro-bind', join(HELPER_DIRECTORY, 'etc'), '/etc'],
    ['--dev', '/dev', '--perms', '1777', '--tmpfs', '/dev/shm', '--remount-ro', '/dev', '--proc', '/proc'],
    ['--remount-ro', '/'],
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
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0'))
      throw new Error(`the variable ${JSON.stringify(name)} cannot be set`);
  }
  return all;
}
