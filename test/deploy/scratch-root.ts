import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { debianLayers } from '../support/debian-image.ts';
import { temporaryFolder } from '../support/folders.ts';
import { said } from './support.ts';

/**
 * A small Debian with a layer of memory above it: whoever installs something in here changes the layer alone. Processes
 * and network are its own too, and no systemd runs.
 */
export interface ScratchRoot {
  /** A shell command in there, as root. */
  sh(command: string): Promise<Finished>;
  /** Starts one that goes on; it ends with the root at the latest. */
  start(command: string): ChildProcess;
  /** What was made or changed in there. */
  changed(): Promise<string[]>;
  close(): Promise<void>;
}

const begin = `set -eu
folder=$1
mount --make-rprivate /
system=$2
given=$3
ip link set lo up
mount -t tmpfs -o size=2g layer "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay -o "lowerdir=$system,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
cd "$folder/root"
mkdir -p "./$given" proc run dev sys mnt
mount --bind "$given" "./$given"
mount -t proc proc proc
mount -t tmpfs run run
mount --rbind /dev dev
mount --rbind /sys sys
mknod -m 666 "$folder/tun" c 10 200
mount --bind "$folder/tun" dev/net/tun
mkdir run/upper
mount --bind "$folder/upper" run/upper
# Not chroot: the kernel makes no user namespaces for whoever has another root than their mounts have.
pivot_root . mnt
umount -l /mnt
echo ready
exec sleep infinity`;

/** With these packages of this machine. `given` is a folder of this machine that is there too. */
export async function openScratchRoot(packages: readonly string[], given: string): Promise<ScratchRoot> {
  const folder = temporaryFolder();
  const system = temporaryFolder();
  for (const layer of await debianLayers(folder, ['mount', ...packages])) {
    const unpacked = await run('tar', ['-C', system, '--numeric-owner', '-xf', '-'], { input: layer });
    assert.equal(unpacked.status, 0, said(unpacked));
  }
  const flags = ['--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', begin, 'sh', folder, system, given];
  // It ends with this process, however that ends.
  const holder = spawn('setpriv', ['--pdeathsig', 'KILL', '--', 'unshare', ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let complaint = '';
  holder.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()));
  const ready = await Promise.race([once(holder.stdout, 'data'), once(holder, 'exit').then(() => undefined)]);
  if (!ready) throw new Error(`there is no scratch root: ${complaint}`);
  const first = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8').trim();
  const enter = ['--target', first, '--mount', '--net', '--pid', 'sh', '-c'];
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    LC_ALL: 'C.UTF-8',
  };
  const inside = (command: string): Promise<Finished> => run('nsenter', [...enter, `cd /; ${command}`], { env });
  return {
    sh: inside,
    start: (command) => spawn('nsenter', [...enter, `cd /; ${command}`], { env, stdio: ['ignore', 'pipe', 'pipe'] }),
    async changed() {
      // A character device is the mark of something that was removed.
      const found = await inside(`find /run/upper -mindepth 1 ! -type c -printf '/%P\\n'`);
      return found.stdout.toString().trim().split('\n');
    },
    async close() {
      const gone = once(holder, 'exit');
      holder.kill('SIGKILL');
      await gone;
      for (const one of [folder, system]) rmSync(one, { recursive: true, force: true });
    },
  };
}
