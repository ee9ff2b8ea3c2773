import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFolder, type FileLock } from '../lib/file-lock.ts';
import { removeTree } from '../lib/remove-tree.ts';

/**
 * Where blobs lie until they are whole. Each process has a folder of its own there, and holds a lock on it for as long
 * as it lives: so what a server left that was killed is known by its lock, and removed by the next that starts, however
 * many servers share the place. Where folders cannot be locked, age tells.
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
      // Made with the first file: to read blobs takes no room on the disk.
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
    // A sweeper was faster, and has taken the empty folder away.
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** What nobody has written to for this long, nobody writes to. */
const abandonedAfter = 24 * 60 * 60 * 1000;

/** What dead processes left half-written goes; what another writes at this moment stays. */
export async function sweepIncoming(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined); // gone in between
    if (!found) continue;
    const lock = found.isDirectory() ? await tryLockFolder(path).catch(() => 'unknown' as const) : 'unknown';
    const isAbandoned = lock === 'unknown' ? found.mtimeMs < Date.now() - abandonedAfter : lock !== undefined;
    if (isAbandoned) await removeTree(path);
    if (typeof lock === 'object') await lock.release();
  }
}
