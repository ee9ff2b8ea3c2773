import { join } from 'node:path';
import type { Mount } from './sandbox/types.ts';
import { expectTool, type Packing } from './tool-runs.ts';

const treePath = '/run/headrace/tree';
const fileName = 'software.tar.zst';
const failed = 'software was not packed or unpacked';

/** Packs a compiled dependency's files, directories and links. Returns the packed file, below `into`. */
export async function packTree(packing: Packing, tree: string, into: string): Promise<string> {
  const command = [
    `cd ${treePath}`,
    'find . ! -type f ! -type d ! -type l -delete',
    'chmod -R u+rX .', // so that files without read permission are packed too
    `bsdtar -c --zstd --numeric-owner --uid 0 --gid 0 -f /build/${fileName} .`,
  ].join(' && ');
  const mounts: Mount[] = [{ at: treePath, writable: tree }];
  await expectTool(packing, { command, directory: into, mounts, asRoot: true }, failed);
  return join(into, fileName);
}

export async function unpackTree(packing: Packing, folder: string, file: string, into: string): Promise<void> {
  const command = `bsdtar -xpf ${treePath}/${file} -C /build --no-same-owner`;
  const mounts: Mount[] = [{ at: treePath, layers: [folder] }];
  await expectTool(packing, { command, directory: into, mounts }, failed);
}
