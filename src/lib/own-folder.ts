import { chmod, mkdtemp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFile } from './file-lock.ts';
import { removeTree } from './remove-tree.ts';

/**
 * A folder of this process alone, below a folder that several processes share. Each process holds a lock in its own while it
 * lives. A folder without a holder is that of a killed process, and the next process removes it.
 */
export interface OwnFolder {
  path: string;
  remove(): Promise<void>;
}

interface Options {
  /** The names of these folders begin with it; others below the shared folder are left alone. */
  prefix: string;
  mode?: number;
  /** Removes what a killed process left. A failure is logged, and the next process tries again. */
  clear?: (path: string) => Promise<void>;
  log: (message: string) => void;
}

export async function openOwnFolder(shared: string, options: Options): Promise<OwnFolder> {
  const { prefix, mode = 0o700, clear = removeTree, log } = options;
  for (const name of await readdir(shared)) {
    if (!name.startsWith(prefix)) continue;
    const path = join(shared, name);
    const lock = await tryLockFile(join(path, 'lock'), 'exclusive');
    if (!lock) continue;
    await clear(path).catch((error: unknown) =>
      log(`cleanup failed, ${path} stays until the next start tries again: ${String(error)}`),
    );
    await lock.release();
  }
  for (;;) {
    const path = await mkdtemp(join(shared, prefix));
    const lock = await tryLockFile(join(path, 'lock'), 'exclusive');
    if (!lock) continue; // another process has just found it without a holder, and removes it
    await chmod(path, mode);
    return {
      path,
      async remove() {
        await removeTree(path);
        await lock.release();
      },
    };
  }
}
