import { rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFile } from '../../shared/lib/file-lock.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { expectSuccess } from './git.ts';
import { forgetLargeFiles } from './large-files.ts';
import { mirrorAt, namesIn, packsOf, writeTo, type Mirror } from './mirror.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

export interface Collected {
  removed: number;
  tidied: number;
}

export interface CollectOptions {
  dir: string;
  sessions: Sessions;
  log: (message: string) => void;
}

/** Every fetch adds a pack, and many packs slow down every read of the mirror. */
const mostPacks = 50;

/** Removes mirrors that were unused for `unusedForMs`, and repacks the others. Skips mirrors in use. */
export async function collect(
  { dir, sessions, log }: CollectOptions,
  unusedForMs: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<Collected> {
  const collected = { removed: 0, tidied: 0 };
  const root = join(dir, 'mirrors');
  for (const project of await namesIn(root)) {
    for (const name of await namesIn(join(root, project))) {
      signal.throwIfAborted();
      const mirror = mirrorAt(join(root, project, name));
      const fate = await collectOne(sessions, mirror, unusedForMs, signal).catch((error: unknown) => {
        if (signal.aborted) throw error;
        log(`cleanup of the mirror ${mirror.folder} failed: ${String(error)}`); // the others go on
        return undefined;
      });
      if (fate !== undefined) collected[fate] += 1;
    }
    await rmdir(join(root, project)).catch(() => {}); // not empty: the project has other mirrors
  }
  return collected;
}

export async function forget(dir: string, projectId: string): Promise<void> {
  const folder = join(dir, 'mirrors', projectId);
  for (const name of await namesIn(folder)) {
    const lock = await tryLockFile(join(folder, name, 'lock'), 'exclusive');
    if (lock === undefined) continue;
    try {
      await removeTree(join(folder, name));
    } finally {
      await lock.release();
    }
  }
  await rmdir(folder).catch(() => {}); // not empty: a mirror is in use
}

async function collectOne(
  sessions: Sessions,
  mirror: Mirror,
  unusedForMs: number,
  signal: AbortSignal,
): Promise<keyof Collected | undefined> {
  const lockPath = join(mirror.folder, 'lock');
  const lastUse = await stat(lockPath).then(
    (found) => found.mtimeMs,
    () => 0, // a folder without a lock was never complete
  );
  const lock = await tryLockFile(lockPath, 'exclusive');
  if (lock === undefined) return undefined;
  try {
    if (Date.now() - lastUse > unusedForMs) {
      await removeTree(mirror.folder);
      return 'removed';
    }
    await forgetLargeFiles(mirror.folder, unusedForMs);
    const packs = (await packsOf(mirror)).filter((name) => name.endsWith('.pack'));
    if (packs.length <= mostPacks) return undefined;
    await writeTo(sessions, mirror, { signal }, tidy, async () => {});
    return 'tidied';
  } finally {
    await lock.release();
  }
}

async function tidy(session: Session): Promise<void> {
  // Geometric: large old packs stay unchanged, and unreachable objects are kept.
  expectSuccess('packing', await session.git(['repack', '--geometric=2', '-d', '--quiet']));
  expectSuccess('packing refs', await session.git(['pack-refs', '--all']));
}
