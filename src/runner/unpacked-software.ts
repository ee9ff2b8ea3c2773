import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathExists } from '../shared/lib/path-exists.ts';
import { removeTree, sweepTree } from '../shared/lib/remove-tree.ts';
import { treeSize } from '../shared/lib/tree-size.ts';
import type { Link } from '../shared/protocol/index.ts';
import { unpackTree } from './packages.ts';
import type { Limits, Sandboxes } from './sandbox/types.ts';
import { unlessStoreAway } from './retry.ts';
import { directoriesIn } from './search-paths.ts';
import { fetchBlob } from './transfers.ts';

export interface Unpacked {
  tree: string;
  bytes: number;
  /** The directories for search paths. */
  directories: string[];
}

export interface UnpackOptions {
  folder: string;
  link: Pick<Link, 'read'>;
  sandboxes: Sandboxes;
  log: (message: string) => void;
}

/** Unpacking is trusted work: its limits are for the worst case only. */
const limits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 64, timeoutMs: 60 * 60 * 1000 };

export const treeOf = (folder: string, digest: string): string => join(folder, digest, 'tree');

/** The result gets its final name only when it is complete. */
export async function bring(
  { folder, link, sandboxes, log }: UnpackOptions,
  digest: string,
  signal: AbortSignal,
): Promise<Unpacked> {
  const making = join(folder, `making-${randomUUID()}`);
  const tree = join(making, 'tree');
  const packed = join(making, 'packed');
  try {
    for (const path of [making, tree, packed]) await mkdir(path, { mode: 0o755 });
    await fetchBlob(link, digest, join(packed, 'software'), signal, unlessStoreAway);
    const packing = { id: `unpack-${randomUUID()}`, sandboxes, limits, signal };
    await unpackTree(packing, packed, 'software', tree);
    await removeTree(packed);
    const bytes = await treeSize(tree);
    await writeFile(join(making, 'size'), String(bytes));
    await rename(making, join(folder, digest));
    const placed = treeOf(folder, digest);
    return { tree: placed, bytes, directories: directoriesIn(placed) };
  } catch (error) {
    await sweepTree(making, log);
    throw error;
  }
}

/** By digest, least recently used first; incomplete ones are removed. */
export async function present(folder: string, log: (message: string) => void): Promise<[string, Unpacked][]> {
  const found: { digest: string; unpacked: Unpacked; used: number }[] = [];
  for (const digest of await readdir(folder)) {
    const one = isDigest(digest) ? await presentOne(folder, digest).catch(() => undefined) : undefined;
    if (one) found.push({ digest, ...one });
    else await sweepTree(join(folder, digest), log);
  }
  found.sort((a, b) => a.used - b.used);
  return found.map(({ digest, unpacked }) => [digest, unpacked]);
}

async function presentOne(folder: string, digest: string): Promise<{ unpacked: Unpacked; used: number }> {
  const tree = treeOf(folder, digest);
  if (!(await pathExists(tree, 'directory'))) throw new Error('its files are no directory');
  const bytes = Number(await readFile(join(folder, digest, 'size'), 'utf8'));
  const { mtimeMs: used } = await stat(join(folder, digest));
  return { used, unpacked: { tree, bytes, directories: directoriesIn(tree) } };
}

/** The name is free at once; the removal follows. */
export async function discard(folder: string, digest: string): Promise<void> {
  const leaving = join(folder, `leaving-${randomUUID()}`);
  await rename(join(folder, digest), leaving);
  await removeTree(leaving);
}

function isDigest(name: string): boolean {
  return /^[0-9a-f]{64}$/.test(name);
}
