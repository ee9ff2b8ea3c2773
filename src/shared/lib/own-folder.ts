import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFile } from './file-lock.ts';
import { removeTree } from './remove-tree.ts';

/** A process locks its own folder below a shared one. A folder without a holder is removed by the next process. */
export interface OwnFolder {
  path: string;
  remove(): Promise<void>;
}

interface Options {
  /** The names of these folders start with it. Folders with other names are never removed. */
  prefix: string;
  mode?: number;
  /** Cleans up after a killed process. A failure is logged, and the next process tries again. */
  clear?: (path: string) => Promise<void>;
  log: (message: string) => void;
}

export async function openOwnFolder(shared: string, options: Options): Promise<OwnFolder> {
  const { prefix, mode = 0o700, clear = removeTree, log } = options;
  const found = (await readdir(shared)).filter((name) => name.startsWith(prefix));
  for (const name of new Set(found.map((one) => one.replace(/\.lock$/, '')))) {
    const path = join(shared, name);
    const lock = await tryLockFile(lockOf(path), 'exclusive');
    if (!lock) continue;
    const failure = await clear(path).then(
      () => rm(lockOf(path), { force: true }),
      (error: unknown) => String(error),
    );
    if (failure !== undefined) log(`cleanup failed, ${path} stays until the next start tries again: ${failure}`);
    await lock.release();
  }
  for (;;) {
    const path = join(shared, `${prefix}${randomBytes(3).toString('hex')}`);
    const lock = await tryLockFile(lockOf(path), 'exclusive');
    if (!lock) continue; // another process has just found it without a holder, and removes it
    await mkdir(path, { mode });
    return {
      path,
      async remove() {
        await removeTree(path);
        await rm(lockOf(path), { force: true });
        await lock.release();
      },
    };
  }
}

/** Next to the folder: the process that removes the folder holds the lock to the end. */
function lockOf(path: string): string {
  return `${path}.lock`;
}
