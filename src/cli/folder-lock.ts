import { ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { tryLockFile } from '../lib/file-lock.ts';

export interface FolderLock {
  /** Lets other commands on this folder know where its server listens. */
  noteAddress(address: string): void;
  release(): Promise<void>;
}

/**
 * One server at a time for a data folder: two would take each other's socket and runner away. The kernel takes the lock
 * back from a process that dies, however it does. Nothing is changed before it is held. The file says whose it is, and
 * where that process listens.
 */
export async function lockDataFolder(folder: string): Promise<FolderLock> {
  const path = placeOf(folder);
  const lock = await tryLockFile(path, 'exclusive');
  if (!lock) {
    const { pid } = read(path);
    const holder = pid === undefined ? '' : `, process ${pid}`; // it has just taken the lock, if it is not named yet
    throw new Error(`${folder} is the data folder of a server that is running already${holder}`);
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

/** As `listening on …` names it; undefined when no server runs on this folder. */
export function addressOfServer(folder: string): string | undefined {
  const { pid, address } = read(placeOf(folder));
  return pid !== undefined && isAlive(pid) ? address : undefined;
}

function placeOf(folder: string): string {
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
    return ''; // no server was ever started here
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
