import { ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { tryLockFile, type FileLock } from '../lib/file-lock.ts';

/**
 * One server at a time for a data folder: two would take each other's door and runner away. The kernel takes the lock
 * back from a process that dies, however it does. Nothing is changed before it is held.
 */
export async function lockDataFolder(folder: string): Promise<FileLock> {
  const path = join(folder, 'server.lock');
  const lock = await tryLockFile(path, 'exclusive');
  if (!lock) throw new Error(`${folder} is the data folder of a server that is running already${holderOf(path)}`);
  ftruncateSync(lock.fd);
  writeSync(lock.fd, `${process.pid}\n`);
  return lock;
}

/** It has just taken the lock, if it is not named yet. */
function holderOf(path: string): string {
  const [pid] = /^\d+$/m.exec(readFileSync(path, 'utf8')) ?? [];
  return pid === undefined ? '' : `, process ${pid}`;
}
