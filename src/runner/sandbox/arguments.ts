import { buildPath, buildUser, sandboxPaths, usualPath, type Job, type RunUser } from './types.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/** The descriptor on which bubblewrap reports the sandbox's first process; steps.ts has the others. */
export const statusDescriptor = 6;
/** The descriptor from which it reads the system call filter. */
export const seccompDescriptor = 8;

const filters: { [architecture in NodeJS.Architecture]?: string } = { x64: 'x86_64', arm64: 'aarch64' };

/** The filter for this machine; see docs/decisions/0027 and 0134. */
export function seccompFilter({ buildsImages }: Pick<SandboxUsers, 'buildsImages'>): string {
  const name = filters[process.arch];
  if (name === undefined) throw new Error(`there is no filter for the system calls of ${process.arch}`);
  return sourceFile('runner/sandbox/seccomp', `${name}${buildsImages ? '-images' : ''}.bpf`);
}

/**
 * bubblewrap's arguments for a sandbox, except its root, which has everything else that a build sees. Bubblewrap reads the
 * list of all mounts after each mount that it makes, so it makes few. Nested user namespaces are switched off: in its own one
 * a build would have every capability again, and could reach kernel code that only root should reach. The shell is the
 * first process of the sandbox: it reaps orphans while it waits for a step, and bubblewrap need not start a process for
 * that, which would get a filter of its own.
 */
export function sandboxArguments(users: SandboxUsers): string[] {
  return [
    userArguments(users),
    ['--unshare-pid', '--unshare-ipc', '--unshare-uts'],
    // Where user namespaces can be made, it is there already (starter.pl).
    users.buildsImages ? [] : ['--unshare-cgroup-try'],
    ['--die-with-parent', '--as-pid-1', '--new-session'],
    ['--hostname', buildUser.name],
    ['--json-status-fd', `${statusDescriptor}`, '--clearenv'],
    ['--seccomp', `${seccompDescriptor}`],
    ['--proc', '/proc'],
    // Root of a sandbox owns some of what stands there.
    users.user ? ['--ro-bind', '/proc/sys', '/proc/sys'] : [],
    // Otherwise the root is in memory, and nobody's.
    users.user && users.hasManyIds ? [] : ['--remount-ro', '/'],
  ].flat();
}

/** Who runs in a sandbox: the build's user, or one of many, who have IDs of their own or share one. */
export interface SandboxUsers {
  user?: RunUser | undefined;
  hasManyIds: boolean;
  /** Whether they may make user namespaces of their own, and mounts in them. */
  buildsImages?: true | undefined;
}

/** What a root needs that owns files, has users and serves ports. */
const rootCapabilities =
  'chown dac_override fowner fsetid setuid setgid setfcap kill net_bind_service sys_chroot audit_write'.split(' ');

const adding = (names: readonly string[]): string[] => names.flatMap((name) => ['--cap-add', `cap_${name}`]);

function userArguments({ user, hasManyIds }: SandboxUsers): string[] {
  // Its user namespace is there already, and no other can be made in it (starter.pl). One more capability, for `becoming`.
  if (user && hasManyIds) return ['--cap-drop', 'ALL', ...adding([...rootCapabilities, 'setpcap'])];
  const { uid, gid } = user ?? buildUser;
  const as = ['--unshare-user', '--disable-userns', '--uid', `${uid}`, '--gid', `${gid}`, '--cap-drop', 'ALL'];
  return user?.uid === 0 ? [...as, ...adding(rootCapabilities)] : as;
}

/**
 * What makes root of a sandbox whoever runs there, before the waiting shell begins, and takes away for ever what nobody there
 * needs. Capabilities are not handed on to programs: root has them, and others have none. Changing users undoes that a process
 * dies with its parent, which is set again.
 */
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
