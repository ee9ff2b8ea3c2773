import { createHash } from 'node:crypto';
import { lstat, mkdir, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { openOwnFolder, type OwnFolder } from '../../shared/lib/own-folder.ts';

/*
 * A folder for sockets and pipes of this process. It is below the system's temporary folder if the runner's path is
 * long or special. A socket's path may have 107 bytes, and ssh appends 17. ssh's configuration treats blanks and
 * percent signs specially.
 */

const longestPath = 107 - 17 - '/connection-99999'.length;

export async function openRunFolder(dir: string, log: (message: string) => void): Promise<OwnFolder> {
  for (;;) {
    const parent = await parentFolder(resolve(dir));
    const own = await openOwnFolder(parent, { prefix: 'r-', log }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined; // the last user of the parent has just removed it
      throw error;
    });
    if (own === undefined) continue;
    return {
      path: own.path,
      async remove() {
        await own.remove();
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
