import { release, userInfo } from 'node:os';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { existsSync } from 'node:fs';
import type { Config } from '../../../shared/config.ts';
import { run } from '../../../shared/lib/processes.ts';
import { mayMakeCgroups } from '../../../runner/sandbox/cgroups.ts';
import { examineIsolation } from '../../../runner/sandbox/isolation.ts';
import { isCapable, mayGainPrivileges, surroundings } from '../../../runner/sandbox/surroundings.ts';
import { noPrivileges, ownEntries } from '../subordinate-ids.ts';
import { missing, ok, warning, type Check } from './check.ts';

export async function checkMachine(config: Config): Promise<Check[]> {
  return [
    kernel(),
    ...(await isolation(config)),
    controlGroups(),
    await overlays(config),
    ids(),
    ...(await Promise.all(programs.map((program) => checkProgram(program, config)))),
  ];
}

function kernel(): Check {
  const version = release();
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const found = `Linux ${version} on ${process.arch}`;
  if (major < 5 || (major === 5 && minor < 6))
    return missing('kernel', found, 'runners open mounts with a system call of Linux 5.6', 'upgrade the kernel');
  if (major === 5 && minor < 19)
    return warning('kernel', found, 'all builds have the same user ID before Linux 5.19', 'upgrade the kernel');
  return ok('kernel', found);
}

async function isolation({ build_network: network }: Config): Promise<Check[]> {
  return (await examineIsolation(network)).map(({ name, found, isMissing, cost, mend }) =>
    isMissing ? missing(name, found, `builds cannot be isolated: ${cost}`, mend) : ok(name, found),
  );
}

function controlGroups(): Check {
  if (mayMakeCgroups()) return ok('control groups', 'this user may create some');
  const cost =
    'limits on memory and processes apply to each process and to the user, not to each build, and their processor time and memory are not measured';
  const mend = surroundings().container
    ? 'limit the container as a whole: --memory, --pids-limit'
    : 'start it as a service with delegated groups: systemd-run --user -p Delegate=yes bin/headrace serve';
  return warning('control groups', 'this user may not create any', cost, mend);
}

const overlayFileSystem = 0x794c7630;

async function overlays({ data_dir: folder }: Config): Promise<Check> {
  let nearest = folder;
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
  const { type } = await statfs(nearest);
  if (type !== overlayFileSystem) return ok('overlays', `the file system of ${nearest} can carry them`);
  const cost = 'each build gets a copy of its files, which takes time and space, and images cannot be used';
  return warning('overlays', `${nearest} is on an overlay`, cost, 'put the data on a volume: --data-dir /a/volume');
}

function ids(): Check {
  const { isRoot, administers } = surroundings();
  if (administers) return ok('ids', 'root gives each build an ID of its own');
  const cost = 'everything in an image belongs to one user, and builds share the runner’s user ID';
  if (isRoot)
    return [6, 7, 31].every(isCapable)
      ? ok('ids', 'root of this container gives builds IDs of their own')
      : warning(
          'ids',
          'root may not give IDs away here',
          cost,
          'start the container with --cap-add SETUID --cap-add SETGID --cap-add SETFCAP',
        );
  if (!mayGainPrivileges())
    return warning(
      'ids',
      noPrivileges,
      cost,
      'where images need several users, set NoNewPrivileges=no in the unit of the runner (docs/runners.md)',
    );
  const found = ownEntries();
  if (typeof found !== 'string') return ok('ids', `${found.uids.count} from ${found.uids.first} on (/etc/subuid)`);
  const mend = `sudo apt-get install uidmap && sudo usermod --add-subuids 1000000000-1000065535 --add-subgids 1000000000-1000065535 ${nameOfUser()}`;
  return warning('ids', found, cost, mend);
}

function nameOfUser(): string {
  try {
    return userInfo().username;
  } catch {
    return 'USER'; // one without a name has no line in /etc/subuid either
  }
}

interface Program {
  name: string;
  package: string;
  args?: string[];
  for: string;
  isOptional?: true;
  isForNetwork?: true;
}

const programs: Program[] = [
  { name: 'git', package: 'git', for: 'nothing is fetched' },
  { name: 'ssh', package: 'openssh-client', args: ['-V'], for: 'nothing is fetched over SSH' },
  { name: 'openssl', package: 'openssl', args: ['version'], for: 'the server cannot make a certificate' },
  { name: 'bwrap', package: 'bubblewrap', for: 'builds cannot be isolated' },
  { name: 'perl', package: 'perl-base', args: ['-e', 'print "perl $^V"'], for: 'builds cannot be isolated' },
  { name: 'unshare', package: 'util-linux', for: 'builds cannot be isolated' },
  { name: 'bsdtar', package: 'libarchive-tools', for: 'archives cannot be unpacked' },
  { name: 'slirp4netns', package: 'slirp4netns', for: 'builds have no network', isForNetwork: true },
  { name: 'nft', package: 'nftables', for: 'builds have no network', isForNetwork: true },
  { name: 'skopeo', package: 'skopeo', for: 'suites cannot run in images', isOptional: true },
  { name: 'umoci', package: 'umoci', for: 'suites cannot run in images', isOptional: true },
  { name: 'git-lfs', package: 'git-lfs', args: ['version'], for: 'files of Git LFS are not fetched', isOptional: true },
];

async function checkProgram(program: Program, { build_network: network }: Config): Promise<Check> {
  const { name, args = ['--version'], for: cost, isOptional, isForNetwork } = program;
  const PATH = `${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`;
  const tried = await run(name, args, { env: { ...process.env, PATH } }).catch(() => undefined);
  const output = tried && `${tried.stdout.toString()}${tried.stderr.toString()}`.trim().split('\n')[0];
  if (output !== undefined) return ok(name, output);
  const isNeeded = !isOptional && !(isForNetwork && network !== 'internet');
  const sudo = surroundings().isRoot ? '' : 'sudo ';
  return (isNeeded ? missing : warning)(name, 'not found', cost, `${sudo}apt-get install ${program.package}`);
}
