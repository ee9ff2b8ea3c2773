import { buildPath, buildUser, sandboxPaths, usualPath, type Job, type RunUser } from './types.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/** bubblewrap reports the sandbox's first process on it; steps.ts has the other descriptors. */
export const statusDescriptor = 6;
export const seccompDescriptor = 8;

const filters: { [architecture in NodeJS.Architecture]?: string } = { x64: 'x86_64', arm64: 'aarch64' };

/** See docs/decisions/0027 and 0134. */
export function seccompFilter({ buildsImages }: Pick<SandboxUsers, 'buildsImages'>): string {
  const name = filters[process.arch];
  if (name === undefined) throw new Error(`there is no filter for the system calls of ${process.arch}`);
  return sourceFile('runner/sandbox/seccomp', `${name}${buildsImages ? '-images' : ''}.bpf`);
}

/**
 * Mounts are few, because bubblewrap rereads the list of all mounts after each. Nested user namespaces are off: in one
 * of its own, a build would have every capability and reach kernel code for root. The shell is the first process, so
 * that bubblewrap starts none.
 */
export function sandboxArguments(users: SandboxUsers): string[] {
  return [
    userArguments(users),
    ['--unshare-pid', '--unshare-ipc', '--unshare-uts'],
    // For runs that may make user namespaces, starter.pl has made the control group namespace already.
    users.buildsImages ? [] : ['--unshare-cgroup-try'],
    ['--die-with-parent', '--as-pid-1', '--new-session'],
    ['--hostname', buildUser.name],
    ['--json-status-fd', `${statusDescriptor}`, '--clearenv'],
    ['--seccomp', `${seccompDescriptor}`],
    ['--proc', '/proc'],
    // Some files there belong to the sandbox's root, which could change them.
    users.user ? ['--ro-bind', '/proc/sys', '/proc/sys'] : [],
    // With many IDs, the sandbox's root user may add files to the top, which is on disk. Otherwise the top is in memory
    // and belongs to no user of the sandbox.
    users.user && users.hasManyIds ? [] : ['--remount-ro', '/'],
  ].flat();
}

/** The build's user, or one of many users, with IDs of their own or a shared one. */
export interface SandboxUsers {
  user?: RunUser | undefined;
  hasManyIds: boolean;
  buildsImages?: true | undefined;
}

/** For a root that owns files, has users and serves ports. */
const rootCapabilities =
  'chown dac_override fowner fsetid setuid setgid setfcap kill net_bind_service sys_chroot audit_write'.split(' ');

const adding = (names: readonly string[]): string[] => names.flatMap((name) => ['--cap-add', `cap_${name}`]);

function userArguments({ user, hasManyIds }: SandboxUsers): string[] {
  // starter.pl has made the user namespace, in which no other can be made. `becoming` needs setpcap.
  if (user && hasManyIds) return ['--cap-drop', 'ALL', ...adding([...rootCapabilities, 'setpcap'])];
  const { uid, gid } = user ?? buildUser;
  const as = ['--unshare-user', '--disable-userns', '--uid', `${uid}`, '--gid', `${gid}`, '--cap-drop', 'ALL'];
  return user?.uid === 0 ? [...as, ...adding(rootCapabilities)] : as;
}

/** Turns root into the run's user and drops capabilities for good. This resets the parent-death signal. */
export function becoming({ user, hasManyIds }: SandboxUsers): string[] {
  if (!user || !hasManyIds) return [];
  const { uid, gid, groups } = user;
  const belongs = groups.length > 0 ? ['--groups', groups.join(',')] : ['--clear-groups'];
  const bounds = ['-all', ...rootCapabilities.map((name) => `+${name}`)].join(',');
  const rights = [`--bounding-set=${bounds}`, '--inh-caps=-all', '--ambient-caps=-all', '--pdeathsig', 'KILL'];
  return ['setpriv', '--reuid', `${uid}`, '--regid', `${gid}`, ...belongs, ...rights, '--'];
}

export function environment(job: Job, home: string = sandboxPaths.home): Record<string, string> {
  const { name } = job.user ?? buildUser;
  const all = {
    PATH: job.isBuild ? buildPath(home) : usualPath,
    HOME: home,
    USER: name,
    LOGNAME: name,
    SHELL: '/bin/sh',
    LANG: 'C.UTF-8',
    // npm's default folder is read-only. Other tools try the home first anyway.
    ...(job.isBuild && job.image === undefined && { NPM_CONFIG_PREFIX: `${home}/.local` }),
    ...job.environment,
  };
  for (const [name, value] of Object.entries(all)) {
    // The message omits the value, which may be a secret.
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0'))
      throw new Error(`the variable ${JSON.stringify(name)} cannot be set`);
  }
  return all;
}
