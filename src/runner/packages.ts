import { join } from 'node:path';
import { DiskFullError } from '../shared/lib/disk-reserve.ts';
import { rootUser, type Limits, type Mount, type RunUser, type Sandboxes } from './sandbox/types.ts';

/** Compiled dependencies are packed and unpacked in a sandbox. Only files, directories and links are included. */
interface Packing {
  id: string;
  sandboxes: Sandboxes;
  limits: Limits;
  signal: AbortSignal;
}

const treePath = '/run/headrace/tree';
const fileName = 'software.tar.zst';

/** Returns the packed file, below `into`. */
export async function packTree(packing: Packing, tree: string, into: string): Promise<string> {
  const command = [
    `cd ${treePath}`,
    'find . ! -type f ! -type d ! -type l -delete',
    'chmod -R u+rX .', // also includes files that their maker cannot read
    `bsdtar -c --zstd --numeric-owner --uid 0 --gid 0 -f /build/${fileName} .`,
  ].join(' && ');
  // Its maker may have had several users.
  await run(packing, { command, user: rootUser, workspace: into, mount: { at: treePath, writable: tree } });
  return join(into, fileName);
}

export async function unpackTree(packing: Packing, folder: string, file: string, into: string): Promise<void> {
  const command = `bsdtar -xpf ${treePath}/${file} -C /build --no-same-owner`;
  await run(packing, { command, workspace: into, mount: { at: treePath, layers: [folder] } });
}

async function run(
  { id, sandboxes, limits, signal }: Packing,
  { command, user, workspace, mount }: { command: string; user?: RunUser; workspace: string; mount: Mount },
): Promise<void> {
  let output = '';
  const ended = await sandboxes.run({
    id,
    steps: [{ name: 'pack', command }],
    user,
    environment: {},
    workspace: { directory: workspace },
    mounts: [mount],
    limits,
    output: (chunk) => {
      if (output.length < 4000) output += chunk.toString();
    },
    signal,
  });
  if (ended.reason === 'out_of_disk') throw new DiskFullError();
  if (ended.exitStatus !== 0) throw new Error(`software was not packed or unpacked: ${ended.reason ?? output.trim()}`);
}
