import { mkdir, open, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { spawn } from 'node:child_process';

/*
 * Locks between processes that the kernel releases automatically.
 *
 * Node cannot call flock(2), but flock(1) can lock a file that this process opened. Both share the open file, so the
 * lock outlives flock(1). It ends when the last copy of the descriptor is closed, by release() or by any death of this
 * process. A child with the descriptor keeps the lock until it exits, so an orphan never writes alongside a new holder.
 */

export interface FileLock {
  /** For child processes that must hold the lock too. */
  fd: number;
  release(): Promise<void>;
}

export type LockMode = 'exclusive' | 'shared';

/** Waits for the lock. Creates the file and its folder if needed. */
export async function lockFile(path: string, mode: LockMode, signal?: AbortSignal): Promise<FileLock> {
  for (;;) {
    const lock = await attempt(path, [mode === 'shared' ? '-s' : '-x'], signal);
    if (lock !== undefined) return lock;
  }
}

export async function tryLockFile(path: string, mode: LockMode): Promise<FileLock | undefined> {
  return attempt(path, [mode === 'shared' ? '-s' : '-x', '-n']);
}

/** For an existing folder, without creating a file. Not every network file system supports that. */
export async function tryLockFolder(path: string): Promise<FileLock | undefined> {
  return attempt(path, ['-x', '-n'], undefined, (folder) => open(folder, 'r'));
}

async function attempt(
  path: string,
  flags: string[],
  signal?: AbortSignal,
  opened: (path: string) => Promise<FileHandle> = openForLock,
): Promise<FileLock | undefined> {
  const file = await opened(path);
  try {
    if ((await flock(file.fd, flags, signal)) && (await isStillThere(path, file))) {
      return { fd: file.fd, release: () => file.close() };
    }
  } catch (error) {
    await file.close();
    throw error;
  }
  await file.close();
  return undefined;
}

async function openForLock(path: string): Promise<FileHandle> {
  for (;;) {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    try {
      return await open(path, 'a', 0o600);
    } catch (error) {
      if (!isMissing(error)) throw error; // the folder was removed between the two calls: try again
    }
  }
}

/** If the previous holder removed the file, no other process sees the one that we locked. */
async function isStillThere(path: string, file: FileHandle): Promise<boolean> {
  try {
    const [named, held] = await Promise.all([stat(path), file.stat()]);
    return named.ino === held.ino && named.dev === held.dev;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

function flock(fd: number, flags: string[], signal?: AbortSignal): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  if (signal?.aborted) {
    reject(signal.reason);
    return promise;
  }
  const helper = spawn('flock', [...flags, '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] });
  const stop = (): void => void helper.kill('SIGKILL');
  signal?.addEventListener('abort', stop, { once: true });
  helper.on('error', reject);
  helper.on('close', (status, endedBy) => {
    signal?.removeEventListener('abort', stop);
    if (signal?.aborted) reject(signal.reason);
    else if (status === 0 || status === 1) resolve(status === 0);
    else reject(new Error(`flock ended with ${status ?? endedBy}`));
  });
  return promise;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
