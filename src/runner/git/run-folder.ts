import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { tryLockFile } from '../../lib/file-lock.ts';
import { removeTree } from '../../lib/remove-tree.ts';

/*
 * A folder for sockets and pipes that live as long as this process.
 *
 * It stands inside the runner's own folder when the path is short and plain, else under the system's folder
 * for temporary files: a socket's path may have 107 bytes, ssh appends 17 of its own while it makes one, and
 * a path with blanks or percent signs means something else in ssh's configuration. Every process holds a lock
 * in its own; a folder whose lock is free belongs to the dead, and the next process removes it.
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
    if (lock === undefined) continue; // a sweeper was faster: it takes the empty folder away
    return {
      path,
      close: async () => {
        await removeTree(path);
        await lock.release();
        await rmdir(parent).catch(() => {}); // not empty: others are at work
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
  const found = await lstat(outside); // anybody may have made it first, in a folder that belongs to all
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
