import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../support/folders.ts';

/**
 * This machine's files with a layer of memory above them: whoever installs something in here changes the layer alone.
 * Processes and network are its own too, and no systemd runs.
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
mount -t tmpfs -o size=2g layer "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
cd "$folder/root"
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
ip link set lo up
echo ready
exec sleep infinity`;

export async function openScratchRoot(): Promise<ScratchRoot> {
  const folder = temporaryFolder();
  const flags = ['--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', begin, 'sh', folder];
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
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
