import { readFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFullError } from '../lib/disk-reserve.ts';
import { quote } from './sandbox/steps.ts';
import type { Ended, Limits, Mount, Sandboxes } from './sandbox/types.ts';
import { sourceFile } from '../lib/source-files.ts';
import { TooLargeError } from './transfers.ts';

/**
 * A layer of a cache as one packed file: a list of what it removes from the layers below, and the files that it adds. It
 * is packed and unpacked inside a sandbox, because builds made all of it, or whoever else runs a runner. Unpacked over the
 * layers below, through an overlay, it becomes the same layer again: the kernel makes the marks that hide things, which only
 * root could copy.
 */
export interface Packing {
  id: string;
  sandboxes: Sandboxes;
  signal: AbortSignal;
}

const limits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 64, timeoutMs: 30 * 60 * 1000 };
const [oldPlace, newPlace] = ['/run/headrace/old', '/run/headrace/new'];
/** Inside the workspace, so that the packed file has it beside the list. */
const treePlace = '/build/tree';
/** The directories of a layer. Each is a mount of its own, so that nothing in a sandbox can put something else in its place. */
export const parts = ['workspace', 'home'] as const;
const tooLarge = 3;
export const packedFile = 'layer.tar.zst';

const lister = readFileSync(sourceFile('runner/list-layer.pl'), 'utf8');
const plainly = '--numeric-owner --no-xattrs --no-acls --no-fflags';

/** Packs a layer of files that are no more than `most` bytes into a file in `into`. Returns its size. */
export async function packLayer(
  packing: Packing,
  { tree, below, into, most }: { tree: string; below: readonly string[]; into: string; most: number },
): Promise<number> {
  const mounts = mountsOf(treePlace, [], tree);
  if (below.length === 0) return pack(packing, into, mounts, [most]);
  mounts.push(...mountsOf(oldPlace, below), ...mountsOf(newPlace, [...below, tree]));
  return pack(packing, into, mounts, [most, oldPlace, newPlace]);
}

/** The same for all that several layers show together, as one layer for the place of them all. */
export async function packWhole(
  packing: Packing,
  { layers, into, scratch, most }: { layers: readonly string[]; into: string; scratch: string; most: number },
): Promise<number> {
  return pack(packing, into, mountsOf(treePlace, layers, scratch), [most]);
}

function mountsOf(at: string, layers: readonly string[], writable?: string): Mount[] {
  return parts.map((part) => ({
    at: join(at, part),
    layers: layers.map((layer) => join(layer, part)),
    ...(writable !== undefined && { writable: join(writable, part) }),
  }));
}

async function pack(packing: Packing, into: string, mounts: Mount[], words: (string | number)[]): Promise<number> {
  const command = [
    `perl -e ${quote(lister)} -- ${words.join(' ')}`,
    `bsdtar -c --format=pax --zstd --uid 0 --gid 0 ${plainly} -n --null -T list -f ${packedFile}`,
  ].join('\n');
  const { ended, said } = await run(packing, into, mounts, command);
  if (ended.exitStatus === tooLarge && ended.reason === null) throw new TooLargeError();
  if (ended.exitStatus !== 0) throw new Error(ended.reason ?? said.trim());
  return (await lstat(packedIn(into))).size;
}

/** Unpacks the packed layer in a folder over the layers below it. */
export async function unpackLayer(
  packing: Packing,
  { folder, below, tree }: { folder: string; below: readonly string[]; tree: string },
): Promise<void> {
  const command = [
    `bsdtar -xqf ${packedFile} removed`,
    '(cd tree && xargs -0 -r rm -rf -- <../removed)',
    `bsdtar -xpf ${packedFile} --no-same-owner ${plainly} tree`,
  ].join(' && ');
  const { ended, said } = await run(packing, folder, mountsOf(treePlace, below, tree), command);
  if (ended.exitStatus !== 0) throw new Error(`a cache was not unpacked: ${ended.reason ?? said.trim()}`);
}

async function run(
  { id, sandboxes, signal }: Packing,
  directory: string,
  mounts: Mount[],
  command: string,
): Promise<{ ended: Ended; said: string }> {
  let said = '';
  const ended = await sandboxes.run({
    id,
    steps: [{ name: 'pack', command }],
    environment: {},
    workspace: { directory },
    mounts,
    limits,
    output: (chunk) => {
      if (said.length < 4000) said += chunk.toString();
    },
    signal,
  });
  if (ended.reason === 'cancelled') throw signal.reason ?? new Error('the runner ends');
  if (ended.reason === 'out_of_disk') throw new DiskFullError();
  return { ended, said };
}

export const packedIn = (folder: string): string => join(folder, packedFile);
