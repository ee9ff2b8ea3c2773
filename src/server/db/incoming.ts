import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFolder, type FileLock } from '../../shared/lib/file-lock.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';

/**
 * Each process locks its own folder while it lives. The next server that starts recognizes a killed server's files by
 * the missing lock and removes them. If folders cannot be locked, their age decides.
 */
export interface Incoming {
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
      // Created with the first file, so that reading blobs needs no disk space.
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

/** Files without a write for this long are abandoned. */
const abandonedAfter = 24 * 60 * 60 * 1000;

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
