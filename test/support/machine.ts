import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { accessSync, closeSync, constants, existsSync, openSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

/**
 * The features of the machine that tests need. A test that needs one is skipped without it, in words; it never finds out
 * by failing or by waiting. The product's own checks are not asked: they are what tests are about.
 */
const probes = {
  root: () => !isRoot && 'the tests are not run by root',
  'ordinary user': () => isRoot && 'the tests are run by root',
  isolation: whyNoIsolation,
  'isolated runner': whyNoIsolatedRunner,
  'user namespaces': () => whyNoNamespaces(true),
  tun: whyNoTun,
  mounts: () => needsRoot('mount a file system', ['unshare', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']),
  networks: () => needsRoot('make network namespaces', ['unshare', '--net', 'true']),
  'other users': whyNoOtherUsers,
  IPv6: () => !existsSync('/proc/net/if_inet6') && 'the kernel has no IPv6',
  postgres: () => (existsSync('/usr/lib/postgresql') ? whyNoAccount() : 'PostgreSQL is not installed'),
  sshd: () => whyNo('sshd') || whyNoAccount(),
  swift: () => whyNoPython('swift'),
  seccomp: () => whyNoPython('seccomp'),
  smtp: () => whyNoPython('aiosmtpd'),
} satisfies Record<string, () => string | false>;

export type Feature = keyof typeof probes;

const isRoot = process.getuid?.() === 0;
const project = join(import.meta.dirname, '../..');
const known = new Map<string, string | false>();

/** Why this machine cannot run a test that needs these features and programs; false if it can. */
export function lacks(...needs: (Feature | (string & {}))[]): string | false {
  for (const need of needs) {
    let why = known.get(need);
    if (why === undefined)
      known.set(need, (why = Object.hasOwn(probes, need) ? probes[need as Feature]() : whyNo(need)));
    if (why !== false) return why;
  }
  return false;
}

/** Servers live outside a person's PATH on Debian. */
function whyNo(program: string): string | false {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return !folders.some((folder) => isExecutable(join(folder, program))) && `${program} is not installed`;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** OpenSSH and PostgreSQL refuse to run as a user whom /etc/passwd does not have, as in some containers. */
function whyNoAccount(): string | false {
  try {
    userInfo();
    return false;
  } catch {
    return `the user ${process.getuid?.()} has no account here`;
  }
}

/**
 * Builds that begin in a test's own process. They have namespaces, and mounts of their own in them. An ordinary user begins
 * with a user namespace.
 */
function whyNoIsolation(): string | false {
  return whyNoPrograms() || whyNoNamespaces(!isRoot);
}

/** Builds of a runner that is a program of its own. Where root is not allowed what root of a machine is, it begins as others do. */
function whyNoIsolatedRunner(): string | false {
  return whyNoPrograms() || (isRoot && whyNoNamespaces(false) === false ? false : whyNoNamespaces(true));
}

function whyNoPrograms(): string | false {
  return ['unshare', 'setpriv', 'bwrap', 'bsdtar', 'perl'].map(whyNo).find((why) => why !== false) ?? false;
}

function whyNoNamespaces(inUserNamespace: boolean): string | false {
  const made = makeNamespaces(...(inUserNamespace ? ['--user', '--map-root-user'] : []));
  return made.status !== 0 && `namespaces cannot be made here: ${said(made)}`;
}

function makeNamespaces(...user: string[]): SpawnSyncReturns<string> {
  return attempt(['unshare', ...user, '--mount', '--net', '--pid', '--ipc', '--fork', '--mount-proc', 'true']);
}

function whyNoTun(): string | false {
  try {
    closeSync(openSync('/dev/net/tun', 'r+'));
  } catch (error) {
    return `/dev/net/tun cannot be opened: ${(error as NodeJS.ErrnoException).code}`;
  }
  return lacks('isolation', 'slirp4netns', 'nft');
}

/** Tests become another user, who runs the program from this working copy. */
function whyNoOtherUsers(): string | false {
  if (!isRoot) return 'only root can become another user';
  const become = ['setpriv', '--reuid', '60920', '--regid', '60920', '--clear-groups', '--'];
  const became = attempt([...become, 'true']);
  if (became.status !== 0) return `root cannot become another user here: ${said(became)}`;
  const canRead = attempt([...become, 'test', '-r', join(project, 'package.json')]).status === 0;
  return canRead ? false : `other users cannot read the working copy (the mode of ${closedFolder()})`;
}

/** The folder on the way to the project that keeps others out. */
function closedFolder(): string {
  const folders = [project];
  while (dirname(folders[0] ?? '/') !== folders[0]) folders.unshift(dirname(folders[0] ?? '/'));
  return folders.find((folder) => (statSync(folder).mode & 0o001) === 0) ?? project;
}

function needsRoot(what: string, command: string[]): string | false {
  if (!isRoot) return `only root can ${what}`;
  const tried = attempt(command);
  return tried.status === 0 ? false : `root cannot ${what} here: ${said(tried)}`;
}

function whyNoPython(module: string): string | false {
  const found = attempt(['/usr/bin/python3', '-c', `import ${module}`]).status === 0;
  return !found && `Debian's python3-${module} is not installed`;
}

function attempt([program = '', ...args]: string[]): SpawnSyncReturns<string> {
  return spawnSync(program, args, { encoding: 'utf8', timeout: 60_000 });
}

function said({ stderr, error }: SpawnSyncReturns<string>): string {
  return (
    error?.message ??
    stderr
      .trim()
      .split('\n')[0]
      ?.replace(/^unshare: unshare/, 'unshare') ??
    ''
  );
}
