import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import type { Started } from '../support/program.ts';
import { manifestsIn } from './manifests.ts';
import { project } from './support.ts';

/** Pods of the manifests without a cluster: their users, rights, volumes and variables, over files that are read-only. */

export interface Container {
  command?: string[];
  args: string[];
  env?: { name: string; value: string }[];
  securityContext?: { capabilities?: { add?: string[] } };
  volumeMounts: { name: string; mountPath: string }[];
  readinessProbe?: { exec?: { command: string[] } };
}

interface PodSpec {
  containers: Container[];
  initContainers?: Container[];
  securityContext?: { runAsUser: number; fsGroup: number };
  volumes: { name: string; emptyDir?: object }[];
}

export function podOf(file: string, kind: string): PodSpec {
  const all = manifestsIn(readFileSync(join(project, 'deploy/kubernetes', file), 'utf8'));
  const { spec } = all.find((manifest) => manifest.kind === kind) ?? assert.fail(`${file} has no ${kind}`);
  const { template, jobTargetRef } = spec as Record<string, { spec?: PodSpec; template?: { spec: PodSpec } }>;
  return template?.spec ?? jobTargetRef?.template?.spec ?? assert.fail(`${kind} has no pod`);
}

/** The program lies where the image has it. What the machine has of a path is hidden by a volume there. */
const begin = `set -eu
folder=$1 project=$2 user=$3 group=$4 kept=$5 mounts=$6
shift 6
mount --make-rprivate /
mkdir -p "$folder/layer"
mount -t tmpfs -o mode=755 layer "$folder/layer"
cd "$folder/layer"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=upper,workdir=work" overlay root
cd root
mkdir -p usr/lib/headrace
mount --bind "$project" usr/lib/headrace
mount -o remount,bind,ro usr/lib/headrace
for kind in proc dev sys; do mount --rbind /$kind $kind; done
for pair in $mounts; do
  source=$folder/\${pair%%:*} target=.\${pair#*:}
  if [ -d "$source" ]; then mkdir -p "$target"; elif [ ! -e "$target" ]; then : >"$target"; fi
  mount --bind "$source" "$target"
done
mount -o remount,ro .
pivot_root . mnt
umount -l /mnt
cd /
exec setpriv --reuid "$user" --regid "$group" --clear-groups --bounding-set="$kept" --inh-caps=-all --no-new-privs -- "$@"`;

export interface Pod {
  /** The arguments and variables of its container, as the manifest has them. */
  args: string[];
  env: Record<string, string>;
  probe: string[];
  start(afterwards: (cleanUp: () => void) => void, args: string[], env?: Record<string, string>): Started;
  /** A command in there, as `kubectl exec` runs it. */
  exec(words: string[], env?: Record<string, string>): Promise<Finished>;
}

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const program = '/usr/lib/headrace/bin/headrace';

/** A volume is a folder or file of its name in this folder. Those that are missing are made as the kubelet makes them. */
export function podIn(
  folder: string,
  { volumes, securityContext }: Pick<PodSpec, 'volumes' | 'securityContext'>,
  container: Container,
): Pod {
  const { runAsUser: user = 0, fsGroup: group = 0 } = securityContext ?? {};
  const { env = [], volumeMounts, args, readinessProbe } = container;
  for (const { name, emptyDir } of volumes) {
    const at = join(folder, name);
    if (statSync(at, { throwIfNoEntry: false })?.isDirectory()) closeToOthers(at, group);
    else if (existsSync(at)) continue;
    else if (emptyDir) volume(at, group);
    else assert.fail(`nothing is there for the volume ${name}`);
  }
  const added = container.securityContext?.capabilities?.add ?? [];
  const kept = ['-all', ...added.map((name) => `+${name.toLowerCase()}`)].join(',');
  const mounts = volumeMounts.map(({ name, mountPath }) => `${name}:${mountPath}`).join(' ');
  const within = ['--mount', 'sh', '-c', begin, 'sh', folder, project, String(user), String(group), kept, mounts];
  const own = { PATH: path, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) };
  return {
    args,
    env: own,
    probe: readinessProbe?.exec?.command ?? [],
    start(afterwards, words, more = {}) {
      const child = spawn('unshare', [...within, program, ...words], { env: { ...own, ...more }, stdio: 'pipe' });
      afterwards(() => void child.kill('SIGKILL'));
      let printed = '';
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => (printed += chunk.toString()));
      const exited = once(child, 'close').then(([status, signal]) => (status ?? signal) as number | NodeJS.Signals);
      return { process: child, said: () => printed, exited };
    },
    exec: ([first = '', ...words], more = {}) =>
      run('unshare', [...within, first === 'headrace' ? program : first, ...words], {
        env: { ...own, ...more },
      }),
  };
}

/** It belongs to root, and the group of the pod may write to it. */
function volume(at: string, group: number): void {
  mkdirSync(at);
  chownSync(at, 0, group);
  chmodSync(at, 0o2777);
}

/** Secrets are files of root, which the group of the pod reads. */
function closeToOthers(at: string, group: number): void {
  for (const name of group === 0 ? [] : readdirSync(at)) {
    chownSync(join(at, name), 0, group);
    chmodSync(join(at, name), 0o440);
  }
}
