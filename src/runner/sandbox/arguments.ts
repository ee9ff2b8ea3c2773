import { buildPath, buildUser, sandboxPaths, usualPath, type Job, type Network } from './types.ts';
import { sourceFile } from '../../lib/source-files.ts';

/** The descriptor on which bubblewrap reports the sandbox's first process; steps.ts has the others. */
export const statusDescriptor = 6;
/** The descriptor from which it reads the system call filter. */
export const seccompDescriptor = 8;

const filters: { [architecture in NodeJS.Architecture]?: string } = { x64: 'x86_64.bpf', arm64: 'aarch64.bpf' };

/** The filter for this machine; see docs/decisions/0027. */
export function seccompFilter(): string {
  const name = filters[process.arch];
  if (name === undefined) throw new Error(`there is no filter for the system calls of ${process.arch}`);
  return sourceFile('runner/sandbox/seccomp', name);
}

/**
 * bubblewrap's arguments for every sandbox on this machine, except its root, which has everything else that a build
 * sees. Bubblewrap reads the list of all mounts after each mount that it makes, so it makes few. Nested user namespaces
 * are switched off: in its own one a build would have every capability again, and could reach kernel code that only
 * root should reach. The shell is the first process of the sandbox: it reaps orphans while it waits for a step, and
 * bubblewrap need not start a process for that, which would get a filter of its own.
 */
export function commonArguments(network: Network): string[] {
  return [
    ['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
    network === 'none' ? ['--unshare-net'] : [],
    ['--disable-userns', '--cap-drop', 'ALL', '--die-with-parent', '--as-pid-1', '--new-session'],
    ['--hostname', buildUser.name],
    ['--uid', `${buildUser.uid}`, '--gid', `${buildUser.gid}`, '--json-status-fd', `${statusDescriptor}`, '--clearenv'],
    ['--seccomp', `${seccompDescriptor}`],
    ['--proc', '/proc', '--remount-ro', '/'],
  ].flat();
}

export function environment(job: Job, home: string = sandboxPaths.home): Record<string, string> {
  const all = {
    PATH: job.isBuild ? buildPath(home) : usualPath,
    HOME: home,
    USER: buildUser.name,
    LOGNAME: buildUser.name,
    SHELL: '/bin/sh',
    LANG: 'C.UTF-8',
    // Where npm puts programs by default nothing can be written; the other tools begin with the home anyway.
    ...(job.isBuild && job.image === undefined && { NPM_CONFIG_PREFIX: `${home}/.local` }),
    ...job.environment,
  };
  for (const [name, value] of Object.entries(all)) {
    // The value is not repeated: it may be a secret.
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0'))
      throw new Error(`the variable ${JSON.stringify(name)} cannot be set`);
  }
  return all;
}
