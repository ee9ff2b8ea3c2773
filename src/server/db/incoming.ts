import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFolder, type FileLock } from '../../shared/lib/file-lock.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';

/**
 * The folder of blobs that are not complete yet. Each process has its own folder in it, and holds a lock on that folder
 * while it lives. So the next server that starts recognizes the files of a killed server by the missing lock and
 * removes them, however many servers share the folder. Where folders cannot be locked, their age decides.
 */
export interface Incoming {
  /** The path for a new file. */
  file(): Promise<string>;
  sweep(): Promise<void>;
  close(): Promise<void>;
}

interface Own {
  path: string;
  lock: FileLock | undefined;
}

export function openIncoming(folder: string): Incoming {
  let opening: Promise<Own> | undefined;
  return {
    async file() {
      // Created with the first file: reading blobs needs no room on the disk.
      opening ??= makeOwn(folder);
      opening.catch(() => (opening = undefined));
      return join((await opening).path, randomUUID());
    },
    sweep: () => sweepIncoming(folder),
    async close() {
      const own = await opening?.catch(() => undefined);
      if (!own) return;
      await removeTree(own.path);
      await own.lock?.release();
    },
  };
}

async function makeOwn(folder: string): Promise<Own> {
  for (;;) {
    const path = join(folder, randomUUID());
    await mkdir(path, { recursive: true, mode: 0o700 });
    try {
      const lock = await tryLockFolder(path);
      if (lock) return { path, lock };
    } catch {
      if (await isThere(path)) return { path, lock: undefined };
    }
    // Another server's sweep has removed the empty folder.
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** A file that was not written to for this long is abandoned. */
const abandonedAfter = 24 * 60 * 60 * 1000;

/** Removes the unfinished files of dead processes; files that a living process writes stay. */
export async function sweepIncoming(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined); // removed in between
    if (!found) continue;
    const lock = found.isDirectory() ? await tryLockFolder(path).catch(() => 'unknown' as const) : 'unknown';
    const isAbandoned = lock === 'unknown' ? found.mtimeMs < Date.now() - abandonedAfter : lock !== undefined;
    if (isAbandoned) await removeTree(path);
    if (typeof lock === 'object') await lock.release();
  }
}
