import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { tryLockFile } from '../../lib/file-lock.ts';
import { removeTree } from '../../lib/remove-tree.ts';

/*
 * A folder for sockets and pipes that live as long as this process.
 *
 * It is inside the runner's own folder if that path is short and plain, else under the system's temporary folder: a
 * socket's path may have 107 bytes, ssh appends 17 while it creates one, and ssh's configuration treats blanks and
 * percent signs specially. Every process holds a lock in its own folder. A folder without a holder belongs to a dead
 * process, and the next process removes it.
 */

const longestPath = 107 - 17 - '/connection-99999'.length;

export interface RunFolder {
  path: string;
  close(): Promise<void>;
}

export async function openRunFolder(dir: string): Promise<RunFolder> {
  for (;;) {
    const parent = await parentFolder(resolve(dir));
    await sweep(parent);
    const path = await mkdtemp(join(parent, 'r-')).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined; // the last user of the parent has just removed it
      throw error;
    });
    if (path === undefined) continue;
    const lock = await tryLockFile(join(path, 'lock'), 'exclusive');
    if (lock === undefined) continue; // another process's sweep was faster and removes the empty folder
    return {
      path,
      close: async () => {
        await removeTree(path);
        await lock.release();
        await rmdir(parent).catch(() => {}); // not empty: other processes use it
      },
    };
  }
}

async function parentFolder(dir: string): Promise<string> {
  const inside = join(dir, 'run');
  if (/^[\w/.+-]+$/.test(inside) && inside.length + '/r-XXXXXX'.length <= longestPath) {
    await mkdir(inside, { recursive: true, mode: 0o700 });
    return inside;
  }
  const uid = process.getuid?.() ?? 0;
  const outside = join(tmpdir(), `headrace-${uid}-${createHash('sha256').update(dir).digest('hex').slice(0, 12)}`);
  await mkdir(outside, { recursive: true, mode: 0o700 });
  const found = await lstat(outside); // any user could have created it first, in a shared folder
  if (!found.isDirectory() || found.uid !== uid || (found.mode & 0o077) !== 0) {
    throw new Error(`${outside} is not a private folder of this user; remove it`);
  }
  return outside;
}

async function sweep(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const lock = await tryLockFile(join(parent, name, 'lock'), 'exclusive');
    if (lock === undefined) continue;
    await removeTree(join(parent, name)).catch(() => {}); // the next process tries again
    await lock.release();
  }
}
