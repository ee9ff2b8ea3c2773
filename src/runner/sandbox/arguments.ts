import { join } from 'node:path';
import { ofTheMachine } from './stage.ts';
import { BUILD_USER, PLACES, USUAL_PATH, type Job, type Network } from './types.ts';
import { BENCH } from './workbench.ts';

/** The descriptor on which bubblewrap tells of the sandbox's first process; steps.ts has the others. */
export const STATUS_FD = 6;

/**
 * What bubblewrap is told about every sandbox on this machine, but for the stage.
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
    ofTheMachine().directories.flatMap((name) => ['--ro-bind', `/${name}`, `/${name}`]),
    ['--ro-bind', join(BENCH, 'etc'), '/etc'],
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
