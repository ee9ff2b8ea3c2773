import { createHash } from 'node:crypto';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { most } from '../shared/domain/bounds.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { run } from '../shared/lib/processes.ts';
import { sha256 } from '../shared/lib/sha256.ts';
import type { RunnerInput } from '../shared/protocol/index.ts';
import { architecture } from './images/documents.ts';
import { variantsHere } from './images/processor.ts';
import type { Network } from './sandbox/types.ts';

/** What a build can notice of this machine. */
export interface MachineInputs {
  /** Builds with an image, and services with images only, do not see the machine's programs. */
  of(build: { seesPrograms: boolean }): Promise<RunnerInput[]>;
}

interface Options {
  network: Network;
  buildAllow: readonly string[];
  buildPaths: readonly string[];
}

/** The list of installed packages changes with these files. */
const packageManagers: readonly { files: readonly string[]; lists: readonly [string, ...string[]] }[] = [
  { files: ['/var/lib/dpkg/status'], lists: ['dpkg-query', '-W'] },
  { files: ['/lib/apk/db/installed'], lists: ['apk', 'info', '-v'] },
  { files: ['/var/lib/pacman/local'], lists: ['pacman', '-Q'] },
  {
    files: ['/usr/lib/sysimage/rpm', '/var/lib/rpm'].flatMap((folder) =>
      ['rpmdb.sqlite', 'rpmdb.sqlite-wal', 'Packages', 'Packages.db'].map((name) => join(folder, name)),
    ),
    lists: ['rpm', '-qa'],
  },
];

const ownPath = '/usr/local';
/** Looking takes at most this part of the time. */
const shareOfTime = 1 / 100;

export function openMachineInputs({ network, buildAllow, buildPaths }: Options): MachineInputs {
  const processor = [architecture, ...variantsHere()].join(' ');
  const always: RunnerInput[] = [
    { kind: 'architecture', name: 'processor', digest: sha256(processor) },
    { kind: 'network', name: 'mode', digest: sha256(network) },
    { kind: 'network', name: 'allowed addresses', digest: sha256(JSON.stringify(buildAllow)) },
  ];
  const folders = [ownPath, ...buildPaths].map((path) => ({ path, look: lookNowAndThen(() => digestOfFolder(path)) }));
  const packages = listedPackages();
  return {
    async of({ seesPrograms }) {
      if (!seesPrograms) return always;
      const seen = await Promise.all(
        folders.map(async ({ path, look }) => ({ kind: 'packages', name: path, digest: await look() }) as const),
      );
      return [...always, { kind: 'packages', name: 'installed packages', digest: await packages() }, ...seen];
    },
  };
}

/** Lists them again when the package manager's own files changed. */
function listedPackages(): () => Promise<string> {
  let last: { stamp: string; digest: Promise<string> } | undefined;
  return async () => {
    const stamps = await Promise.all(packageManagers.map(({ files }) => stampOf(files)));
    const stamp = stamps.join(' ');
    if (last?.stamp !== stamp) last = { stamp, digest: listPackages(stamps) };
    return last.digest;
  };
}

async function stampOf(files: readonly string[]): Promise<string> {
  const found = await Promise.all(files.map(async (file) => stat(file).catch(() => undefined)));
  return found.flatMap((file) => (file ? [`${file.ino}:${file.size}:${file.mtimeMs}`] : [])).join();
}

/** Without a package manager that can be read, the machine equals no other. */
async function listPackages(stamps: readonly string[]): Promise<string> {
  const lists = await Promise.all(
    packageManagers.flatMap(({ lists: [program, ...args] }, at) => (stamps[at] === '' ? [] : [listOf(program, args)])),
  );
  return lists.length === 0 || lists.includes(undefined) ? unknown() : sha256(lists.join('\n\n'));
}

async function listOf(program: string, args: readonly string[]): Promise<string | undefined> {
  const signal = AbortSignal.timeout(60_000);
  const listed = await run(program, args, { signal, env: { PATH: process.env.PATH, LC_ALL: 'C' } }).catch(
    () => undefined,
  );
  return listed?.status === 0 ? listed.stdout.toString().split('\n').toSorted().join('\n') : undefined;
}

const unknown = (): string => sha256(randomName());

function lookNowAndThen(look: () => Promise<string>): () => Promise<string> {
  let last: Promise<string> | undefined;
  let until = 0;
  return () => {
    if (last === undefined || performance.now() >= until) {
      until = Infinity;
      const began = performance.now();
      last = look().finally(() => {
        const ended = performance.now();
        until = ended + (ended - began) / shareOfTime;
      });
    }
    return last;
  };
}

/** Path, size, mode and time of all files. A folder with too many files equals no other. */
async function digestOfFolder(folder: string): Promise<string> {
  const hash = createHash('sha256');
  let room = most.machineFiles;
  const walk = async (path: string, name: string): Promise<void> => {
    const found = await lstat(path).catch(() => undefined);
    if (!found || (room -= 1) < 0) return;
    hash.update(JSON.stringify([name, found.mode, found.isDirectory() ? 0 : found.size, found.mtimeMs]));
    if (!found.isDirectory()) return;
    const names = await readdir(path).catch(() => []);
    for (const one of names.toSorted((a, b) => (a < b ? -1 : 1))) await walk(join(path, one), `${name}/${one}`);
  };
  await walk(folder, '');
  return room < 0 ? unknown() : hash.digest('hex');
}
