import { lstatSync, readFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { sourceFile } from '../shared/lib/source-files.ts';
import { oldTime } from './git/old-times.ts';
import { quote } from '../shared/lib/shell-word.ts';
import type { Mount, RunLayers } from './sandbox/types.ts';
import { expectTool, runTool, type Packing } from './tool-runs.ts';
import { TooLargeError } from './transfers.ts';
import type { Making } from './tree-store.ts';

/** Each directory is its own mount, so that nothing in a sandbox can replace it. */
export const roots = ['workspace', 'home'] as const;
export type Root = (typeof roots)[number];
/** `facts` lists the commit's files that the build has changed. */
export const parts = [...roots, 'facts'] as const;
const changedList = 'facts/changed';

const views = '/run/headrace/cache';
const [tooLarge, unchanged] = [3, 4];
const packedFile = 'cache.tar.zst';
export const packedIn = (folder: string): string => join(folder, packedFile);

const comparer = readFileSync(sourceFile('runner/pack-cache.pl'), 'utf8');
const timer = readFileSync(sourceFile('runner/cache-times.pl'), 'utf8');
const plainly = '--numeric-owner --no-xattrs --no-acls --no-fflags';
// All cores and the fastest level, because the build waits for the packing.
export const packer = `bsdtar -c --format=pax --zstd --options zstd:compression-level=1,zstd:threads=0 ${plainly} -n --null -T /build/list -f /build/${packedFile}`;

interface Leaving {
  left: RunLayers;
  /** The tree that the build began with. */
  old?: string | undefined;
  paths: readonly { root: Root; path: string }[];
  checkout: string;
  into: Pick<Making, 'packed' | 'tree'>;
  /** Limit on the bytes of all files. */
  most: number;
}

/** Returns the size of the packed file; undefined if the build has changed nothing. */
export async function packTree(packing: Packing, leaving: Leaving): Promise<number | undefined> {
  const { left, old, paths, checkout, into, most } = leaving;
  const mounts = roots.flatMap((part): Mount[] => [
    { at: join(views, 'left', part), layers: [...left[part].below, ...left[part].made] },
    { at: join(views, 'made', part), layers: [...left[part].made] },
    ...(old === undefined ? [] : [{ at: join(views, 'old', part), layers: [join(old, part)] }]),
  ]);
  if (old !== undefined) mounts.push({ at: join(views, 'old/facts'), layers: [join(old, 'facts')] });
  mounts.push({ at: join(views, 'commit/workspace'), layers: [checkout] });
  mounts.push({ at: join(views, 'left/facts'), writable: join(into.tree, 'facts') });
  const names = paths.map(({ root, path }) => quote(join(root, path)));
  const command = [
    `cd ${views}`,
    `perl -e ${quote(comparer)} -- ${most} ${names.join(' ')}`,
    `cd left && ${packer}`,
  ].join('\n');
  return pack(packing, into.packed, mounts, command);
}

/** Returns the size of the packed file; undefined if the command reports that nothing has changed. */
export async function pack(
  packing: Packing,
  into: string,
  mounts: Mount[],
  command: string,
): Promise<number | undefined> {
  const { ended, output } = await runTool(packing, { directory: into, mounts, command, asRoot: true });
  if (ended.reason === null && ended.exitStatus === unchanged) return undefined;
  if (ended.reason === null && ended.exitStatus === tooLarge) throw new TooLargeError();
  if (ended.exitStatus !== 0) throw new Error(ended.reason ?? output.trim());
  return (await lstat(packedIn(into))).size;
}

export async function unpackTree(packing: Packing, { packed, tree }: Pick<Making, 'packed' | 'tree'>): Promise<void> {
  const trees = roots.map((part) => `tree/${part}`).join(' ');
  await unpack(packing, { packed, tree }, `perl -e ${quote(timer)} -- ${oldTime} ${trees}`);
}

/** Unpacks the packed file to a tree, and runs a command over it. */
export async function unpack(
  packing: Packing,
  { packed, tree }: Pick<Making, 'packed' | 'tree'>,
  afterwards: string,
): Promise<void> {
  const mounts = parts.map((part) => ({ at: join('/build/tree', part), writable: join(tree, part) }));
  // If a run has only one ID, all files belong to that ID. Otherwise an owner beyond the run's IDs is an error.
  const owners = packing.sandboxes.hasManyUsers ? '--same-owner' : '--no-same-owner';
  const command = `bsdtar -xpf ${packedFile} -C tree ${owners} ${plainly}\n${afterwards}`;
  await expectTool(packing, { directory: packed, mounts, command, asRoot: true }, 'a tree was not unpacked');
}

/** Checks only the list's size, and does not open it, because a build made it. */
export function listsChanged(tree: string): boolean {
  return (lstatSync(join(tree, changedList), { throwIfNoEntry: false })?.size ?? 0) > 0;
}
