import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { expectSuccess } from './git.ts';
import { forgetLargeFiles } from './large-files.ts';
import { ifFree, lastUse, mirrorAt, namesIn, packsOf, sweep, writeTo, type Mirror } from './mirror.ts';
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
  for (const project of await projectsIn(dir)) {
    for (const mirror of await mirrorsOf(dir, project)) {
      signal.throwIfAborted();
      const fate = await collectOne(sessions, mirror, unusedForMs, signal).catch((error: unknown) => {
        if (signal.aborted) throw error;
        log(`cleanup of the mirror ${mirror.folder} failed: ${String(error)}`); // the other mirrors follow
        return undefined;
      });
      if (fate !== undefined) collected[fate] += 1;
    }
    await rmdir(folderOf(dir, project)).catch(() => {}); // not empty: the project has other mirrors
  }
  return collected;
}

export async function forget(dir: string, project: string): Promise<void> {
  for (const mirror of await mirrorsOf(dir, project)) await ifFree(mirror, () => removeTree(mirror.folder));
  await rmdir(folderOf(dir, project)).catch(() => {}); // not empty: a mirror is in use
}

/** At the start: removes files of writers that died, in mirrors that are not in use. */
export async function sweepMirrors(dir: string, log: (message: string) => void): Promise<void> {
  for (const project of await projectsIn(dir))
    for (const mirror of await mirrorsOf(dir, project))
      await sweep(mirror).catch((error: unknown) => log(String(error))); // the next writer tries again
}

export async function projectsIn(dir: string): Promise<string[]> {
  return namesIn(join(dir, 'mirrors'));
}

const folderOf = (dir: string, project: string): string => join(dir, 'mirrors', project);

async function mirrorsOf(dir: string, project: string): Promise<Mirror[]> {
  const folder = folderOf(dir, project);
  return (await namesIn(folder)).map((name) => mirrorAt(join(folder, name)));
}

async function collectOne(
  sessions: Sessions,
  mirror: Mirror,
  unusedForMs: number,
  signal: AbortSignal,
): Promise<keyof Collected | undefined> {
  const usedAt = await lastUse(mirror); // read before the lock is taken, which makes the file
  return ifFree(mirror, async () => {
    if (Date.now() - usedAt > unusedForMs) {
      await removeTree(mirror.folder);
      return 'removed';
    }
    await forgetLargeFiles(mirror.folder, unusedForMs);
    const packs = (await packsOf(mirror)).filter((name) => name.endsWith('.pack'));
    if (packs.length <= mostPacks) return undefined;
    await writeTo(sessions, mirror, { signal }, tidy, async () => {});
    return 'tidied';
  });
}

async function tidy(session: Session): Promise<void> {
  // With `--geometric`, large old packs stay unchanged and unreachable objects are retained.
  expectSuccess('packing', await session.git(['repack', '--geometric=2', '-d', '--quiet']));
  expectSuccess('packing refs', await session.git(['pack-refs', '--all']));
}
