import { join } from 'node:path';
import { tryLockFile, type FileLock } from '../lib/file-lock.ts';
import { sweepTree } from '../lib/remove-tree.ts';
import { sweepMirrors } from './git/mirror.ts';
import { sweepDependencyCache } from './unpacked-software.ts';

/** The parts of a runner's folder. */
export function placesOf(folder: string) {
  const place = (name: string): string => join(folder, name);
  return {
    git: place('git'),
    sandboxes: place('sandboxes'),
    gitSandboxes: place('git-sandboxes'),
    checkouts: place('checkouts'),
    /** What is thrown away when the work is done. */
    scratch: place('scratch'),
    /** Logs on their way. */
    spool: place('spool'),
    software: place('software'),
  };
}

/** A runner has its folder to itself for as long as it lives; undefined while another has it. */
export async function holdFolder(folder: string): Promise<FileLock | undefined> {
  return tryLockFile(join(folder, 'lock'), 'exclusive');
}

/**
 * Removes what a runner that was killed left behind and no other can use. Only for those who hold the folder. What
 * cannot be removed stops nothing.
 */
export async function sweepLeftovers(folder: string, log: (message: string) => void): Promise<void> {
  const { git, checkouts, scratch, spool, software } = placesOf(folder);
  for (const path of [spool, scratch, checkouts]) await sweepTree(path, log);
  await sweepMirrors(git, log);
  await sweepDependencyCache(software, log);
}

/** The same, and what lies in sandboxes: a runner that starts sees to these itself, once it has ended what ran in them. */
export async function sweepForRoom(folder: string, log: (message: string) => void): Promise<void> {
  await sweepLeftovers(folder, log);
  const { sandboxes, gitSandboxes } = placesOf(folder);
  for (const place of [sandboxes, gitSandboxes]) await sweepTree(join(place, 'runs'), log);
}
