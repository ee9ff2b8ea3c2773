import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFile } from '../../lib/file-lock.ts';
import { expectSuccess, longGit } from './git.ts';
import { mirrorAt, type Mirror } from './mirror.ts';

export interface Collected {
  removed: number;
  tidied: number;
}

/** Every fetch leaves a pack; with many of them every look into the mirror gets slower. */
const mostPacks = 50;

/** Removes mirrors that nobody used for `unusedForMs`, and tidies the others. What is in use now is left alone. */
export async function collect(dir: string, unusedForMs: number, signal?: AbortSignal): Promise<Collected> {
  const collected = { removed: 0, tidied: 0 };
  const root = join(dir, 'mirrors');
  for (const project of await namesIn(root)) {
    for (const name of await namesIn(join(root, project))) {
      signal?.throwIfAborted();
      const fate = await collectOne(mirrorAt(join(root, project, name)), unusedForMs, signal);
      if (fate !== undefined) collected[fate] += 1;
    }
    await rmdir(join(root, project)).catch(() => {}); // not empty: other mirrors of the project live
  }
  return collected;
}

async function collectOne(
  mirror: Mirror,
  unusedForMs: number,
  signal: AbortSignal | undefined,
): Promise<keyof Collected | undefined> {
  const lockPath = join(mirror.folder, 'lock');
  const lastUse = await stat(lockPath).then(
    (found) => found.mtimeMs,
    () => 0, // a folder without a lock was never finished
  );
  const lock = await tryLockFile(lockPath, 'exclusive');
  if (lock === undefined) return undefined;
  try {
    if (Date.now() - lastUse > unusedForMs) {
      await rm(mirror.folder, { recursive: true, force: true });
      return 'removed';
    }
    const packs = (await namesIn(join(mirror.gitDir, 'objects', 'pack'))).filter((name) => name.endsWith('.pack'));
    if (packs.length <= mostPacks) return undefined;
    // Geometric: the large old packs stay as they are, and objects that no ref leads to are kept.
    const inside = { cwd: mirror.gitDir, inherit: [lock.fd], ...(signal === undefined ? {} : { signal }) };
    const here = `--git-dir=${mirror.gitDir}`;
    expectSuccess('packing', await longGit([here, 'repack', '--geometric=2', '-d', '--quiet'], inside));
    expectSuccess('packing refs', await longGit([here, 'pack-refs', '--all'], inside));
    return 'tidied';
  } finally {
    await lock.release();
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
