import { ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { tryLockFile } from '../../shared/lib/file-lock.ts';

export interface FolderLock {
  noteAddress(address: string): void;
  release(): Promise<void>;
}

/**
 * One server per data folder: two would replace each other's socket and runner. A dying process frees the lock. It
 * comes before any change. The file has the process and its address.
 */
export async function lockDataFolder(folder: string): Promise<FolderLock> {
  const path = lockFileOf(folder);
  const lock = await tryLockFile(path, 'exclusive');
  if (!lock) {
    const { pid } = read(path);
    const holder = pid === undefined ? '' : `, process ${pid}`; // a process that just took the lock is not named yet
    throw new Error(`${folder} is the data folder of a running server${holder}`);
  }
  const write = (...lines: (string | number)[]): void => {
    ftruncateSync(lock.fd);
    writeSync(lock.fd, lines.map((line) => `${line}\n`).join(''));
  };
  write(process.pid);
  return {
    noteAddress: (address) => write(process.pid, address),
    release: () => lock.release(),
  };
}

/** As in `listening on …`. Undefined if no server runs on this folder. */
export function addressOfServer(folder: string): string | undefined {
  const { pid, address } = read(lockFileOf(folder));
  return pid !== undefined && isAlive(pid) ? address : undefined;
}

function lockFileOf(folder: string): string {
  return join(folder, 'server.lock');
}

function read(path: string): { pid?: number; address?: string } {
  const [, pid, address] = /^(\d+)\n(?:(\S+)\n)?/.exec(textOf(path)) ?? [];
  return { ...(pid === undefined ? {} : { pid: Number(pid) }), ...(address === undefined ? {} : { address }) };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // no server was started here before
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
